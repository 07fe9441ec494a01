"""The documentation does what it says: its code runs, its commands run, its links and code locations exist.

Blocks of the languages in `NOT_RUN` are not run; `pytest -v` names each of them, and of the commands in them it is
checked that they and their flags exist. In a block of commands, `make` is not run either.
"""

import re
import shlex
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from holdfast.cli.main import main
from holdfast.registry import LEARNERS, PLUGINS, SUITES

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

RUN = {"python", "console", "sh"}
NOT_RUN = {
    "text": "results, and commands that take long, or need data, a GPU or a cluster",
    "math": "formulas",
    "mermaid": "diagrams",
}

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
LOCATION = re.compile(r"`([a-z_]+(?:/[a-z_]+)*)\.py:([A-Za-z_][\w.]*)`")  # `training/fit.py:fit`
TEST = re.compile(r"`(test_\w+)`")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    content: str
    line: int


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = BLOCK.finditer(text)
    return [Block(match[1], match[2], text.count("\n", 0, match.start(2)) + 1) for match in found]


def python_of(page: Path) -> str:
    """The Python of a page as one file, every line at its number in the page."""
    lines = [""] * page.read_text(encoding="utf-8").count("\n")
    for block in blocks(page):
        if block.language == "python":
            content = block.content.splitlines()
            lines[block.line - 1 : block.line - 1 + len(content)] = content
    return "\n".join(lines)


def commands(block: Block) -> list[list[str]]:
    """The holdfast commands of a block, as words."""
    lines = [line.removeprefix("$ ") for line in block.content.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("holdfast ")]


def locations(page: Path) -> list[tuple[str, str]]:
    """The code locations that a page names: module, and name in it."""
    return [(match[1].replace("/", "."), match[2]) for match in LOCATION.finditer(page.read_text(encoding="utf-8"))]


def without_blocks(page: Path) -> str:
    """The prose of a page."""
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links: lower case, no punctuation, hyphens for spaces."""
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in HEADING.findall(without_blocks(page))}


def succeed(words: list[str]) -> None:
    """Runs a command that must not fail; help ends with exit code 0."""
    try:
        main(words)
    except SystemExit as end:
        if end.code:
            pytest.fail(f"holdfast {shlex.join(words)} ended with {end.code}")


@pytest.fixture
def _registries_as_they_were() -> Iterator[None]:
    learners, suites, plugins = dict(LEARNERS), dict(SUITES.added), list(PLUGINS)
    yield
    for registry, before in ((LEARNERS, learners), (SUITES.added, suites)):
        registry.clear()
        registry.update(before)  # type: ignore[arg-type]
    PLUGINS[:] = plugins


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_block_says_what_it_is_and_is_run_or_among_those_that_are_not(page: Path) -> None:
    assert len(blocks(page)) == len(FENCED.findall(page.read_text(encoding="utf-8"))), "a block without a language"
    assert {block.language for block in blocks(page)} <= RUN | set(NOT_RUN)


FILE = re.compile(r"# (\w+\.(?:py|toml))\n")  # first line of a block that shows a whole file
MAKE = re.compile(r"make ([a-z]+)(?: +#.*)?")


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_what_stands_in_a_block_of_commands_is_run_or_a_target_of_the_makefile(page: Path) -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    lines = [
        line for block in blocks(page) if block.language in ("console", "sh") for line in block.content.split("\n")
    ]
    for line in filter(None, lines):
        made = MAKE.fullmatch(line)
        assert line.removeprefix("$ ").startswith(("holdfast ", "#")) or (made and made[1] in targets), line


WRITTEN = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}:{block.line}")
    for page in PAGES
    for block in blocks(page)
    if block.language not in RUN
]


@pytest.mark.parametrize("block", WRITTEN)
def test_commands_of_a_block_that_is_not_run_and_their_flags_exist(
    block: Block, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for command, *words in commands(block):
        flags = [word for word in words if word.startswith("--")]
        names = words[: words.index(flags[0])] if flags else words
        for flag in {"--suite", "--learner"} & set(flags if command == "run" else ()):
            names += words[words.index(flag) : words.index(flag) + 2]  # what there is to set depends on these
        succeed([command, *names, "--help"])
        help_text = capsys.readouterr().out
        for flag in flags:
            assert re.search(rf"{flag}\b", help_text), f"holdfast {command} has no {flag}"


@pytest.mark.usefixtures("_registries_as_they_were")
@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_what_a_page_shows_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = ModuleType("page")  # one namespace for all blocks of a page, with a file, where help texts are read from
    module.__file__ = str(tmp_path / "page.py")
    monkeypatch.setitem(sys.modules, "page", module)
    code = {block: "\n" * (block.line - 1) + block.content for block in blocks(page)}  # at the page's own lines
    Path(module.__file__).write_text(python_of(page), encoding="utf-8")
    for block in blocks(page):
        if written := FILE.match(block.content):
            Path(written[1]).write_text(block.content, encoding="utf-8")
        elif block.language == "python":
            exec(compile(code[block], module.__file__, "exec"), module.__dict__)
        elif block.language in ("console", "sh"):
            for words in commands(block):
                succeed(words)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_relative_links_lead_to_files_and_headings(page: Path) -> None:
    for link in LINK.findall(without_blocks(page)):
        if "://" not in link:
            path, _, heading = link.partition("#")
            target = page.parent / path if path else page
            assert target.exists(), f"{page.name} links to {link}"
            assert not heading or heading in anchors(target), f"{page.name} links to {link}"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_code_locations_exist(page: Path) -> None:
    for module, name in locations(page):
        thing: object = import_module(f"holdfast.{module}")
        for part in name.split("."):
            assert hasattr(thing, part) or part in getattr(thing, "__annotations__", {}), (
                f"{page.name} names {module}:{name}"
            )
            thing = getattr(thing, part, None)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_laws_that_a_page_names_are_tests(page: Path) -> None:
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").glob("test_*.py"))
    for name in TEST.findall(page.read_text(encoding="utf-8")):
        assert f"def {name}(" in tests, f"{page.name} names {name}"


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_has_a_page_that_says_where_it_stands_and_how_to_run_it(name: str) -> None:
    page = ROOT / "docs" / "methods" / f"{name}.md"
    assert page.exists(), f"docs/methods/{name}.md is missing"
    assert locations(page), f"{page.name} names no code"
    ran = [words for block in blocks(page) if block.language in ("console", "sh") for words in commands(block)]
    assert any(words[:1] == ["run"] and name in words for words in ran), f"{page.name} does not run {name}"
