"""The tables on the pages of results are what the commands on those pages make of the kept records."""

import glob
import re
import shlex
import shutil
from pathlib import Path

import pytest

from holdfast.cli.main import main

ROOT = Path(__file__).parent.parent
COMMANDS = [
    (page, line)
    for page in sorted((ROOT / "docs" / "results").glob("*.md"))
    for line in re.findall(r"^holdfast table .*--into.*$", page.read_text(encoding="utf-8"), re.MULTILINE)
]


def spelled_out(word: str) -> list[str]:
    """A word of a command as a shell hands it on: the paths that a pattern stands for, else the word itself."""
    return sorted(glob.glob(word)) or [word]


def test_every_page_has_a_command_for_each_of_its_tables():
    for page in {page for page, _ in COMMANDS}:
        marks = re.findall(r"<!-- (\S+): begin -->", page.read_text(encoding="utf-8"))
        words = [shlex.split(line) for found, line in COMMANDS if found == page]
        made = [word[word.index("--mark") + 1] if "--mark" in word else "table" for word in words]
        assert sorted(made) == sorted(marks)


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=[line for _, line in COMMANDS])
def test_a_table_on_a_page_is_what_its_command_makes(page: Path, line: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(ROOT)
    copy = Path(shutil.copy(page, tmp_path))
    words = [path for word in shlex.split(line)[1:] for path in spelled_out(word)]
    main([str(copy) if word.endswith(page.name) else word for word in words])
    assert copy.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")
