"""The documentation does what it says: its code runs, its commands run, its links and code locations exist.

- Python is run, and so are `holdfast` commands in blocks of the languages `sh` and `console`. To save time, the budget
  `smoke` of an agent has fewer steps than a user's, and on pages that show no output that of the toy suites as well.
- In a `console` block, what stands below a command is compared with what the command prints: words and zeros must be
  the same. Other numbers are not compared, since they depend on the machine. A line `...` leaves lines out. A command
  below which a sentence begins with `holdfast:` must fail with this sentence.
- A line `BUDGET=quick` in an `sh` block is a shell's variable, which the commands of its block use as `$BUDGET`, and
  those of the page's later blocks. The tests set it to `smoke`, to save time.
- `make` takes minutes: `make --dry-run` must know the target, and the `holdfast` commands it would run must exist.
- `text` blocks hold results, and commands that take long or need data, a GPU or a cluster. These are not run: their
  commands, modules (`python -m`), scripts, extras (`pip`) and flags must exist.
"""

import os
import re
import shlex
import subprocess
import sys
import tomllib
import warnings
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from operator import attrgetter
from pathlib import Path
from runpy import run_module
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from holdfast.agent import agent
from holdfast.benchmarks.toy.suite import BUDGETS
from holdfast.cli.main import main
from holdfast.registry import LEARNERS

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
SIGNATURE = re.compile(
    r"`([a-z_]+(?:/[a-z_]+)*)\.py:([A-Za-z_][\w.]*)\(([^)]*)\)`"
)  # `data/windows.py:EqualShares(parts)`
TEST = re.compile(r"`(test_\w+)`")
VARIABLE = re.compile(r"^([A-Z]+)=\w+$", re.MULTILINE)  # set in a shell
SHORTER = {"BUDGET": "smoke"}  # what the tests set a variable to
PROGRAMS = ("holdfast", "make", "pip", "python", "torchrun")
NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*(?:e[+-]?\d+)?")
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


def lines(block: Block) -> list[list[str]]:
    """The lines of a block that are commands, as words."""
    found = [line.removeprefix("$ ") for line in block.content.splitlines() if line.removeprefix("$ ")]
    return [shlex.split(line, comments=True) for line in found if line.split()[0] in PROGRAMS]


def commands(block: Block) -> list[list[str]]:
    """The holdfast commands of a block, as words without `holdfast`."""
    return [words for words in map(holdfast_words, lines(block)) if words]


def with_variables(page: Path) -> list[Block]:
    """The blocks of a page, with variables replaced by what the tests set them to."""
    known: dict[str, str] = {}
    replaced = []
    for block in blocks(page):
        if block.language in ("sh", "console"):
            known |= {name: SHORTER[name] for name in VARIABLE.findall(block.content)}
        content = block.content
        for name, value in known.items():
            content = content.replace(f"${name}", value)
        replaced.append(block._replace(content=content))
    return replaced


def holdfast_words(words: list[str]) -> list[str]:
    """What a command line tells holdfast; nothing if it runs something else."""
    if words[0] == "holdfast":
        return words[1:]
    if words[0] in ("python", "torchrun") and words[-1] != "holdfast" and "holdfast" in words:
        return words[words.index("holdfast") + 1 :]
    return []


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
    code = exit_code(words)
    assert not code, f"holdfast {shlex.join(words)} ended with {code}"


def exit_code(words: list[str]) -> Any:
    """Runs a command; returns how it ended."""
    try:
        main(words)
    except SystemExit as end:
        return end.code
    return 0


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_block_says_what_it_is_and_is_run_or_among_those_that_are_not(page: Path) -> None:
    assert len(blocks(page)) == len(FENCED.findall(page.read_text(encoding="utf-8"))), "a block without a language"
    assert {block.language for block in blocks(page)} <= RUN | set(NOT_RUN)


FILE = re.compile(r"# (\w+\.(?:py|toml))\n")  # first line of a block that shows a whole file
TARGETS = sorted({words[1] for page in PAGES for block in blocks(page) for words in lines(block) if words[0] == "make"})


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_line_of_a_block_of_commands_is_run_or_made(page: Path) -> None:
    for block in blocks(page):
        if block.language == "sh":
            content = VARIABLE.sub("", block.content)
            shown = [line for line in content.splitlines() if line and not line.startswith("#")]
            known = [words for words in lines(block) if words[0] == "make" or holdfast_words(words)]
            assert len(shown) == len(known), f"{page.name}:{block.line} has a line that no test runs"


@pytest.mark.parametrize("target", TARGETS)
def test_make_knows_a_target_that_a_page_names_and_would_run_commands_that_exist(
    target: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    dry = subprocess.run(
        ["make", "--dry-run", target], cwd=ROOT, env=outside, capture_output=True, text=True, check=False
    )
    assert dry.returncode == 0, dry.stderr
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{target} is a file or a folder, not a target"
    for command in re.findall(r"\.venv/bin/(holdfast .*)", dry.stdout):
        check_flags(shlex.split(command)[1:], capsys, monkeypatch)


WRITTEN = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}:{block.line}")
    for page in PAGES
    for block in blocks(page)
    if block.language not in RUN
]


def check_flags(words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A holdfast command and its flags exist; it is not run."""
    monkeypatch.setenv("COLUMNS", "200")
    command, *words = words
    flags = [word for word in words if word.startswith("--")]
    names = words[: words.index(flags[0])] if flags else words
    for flag in {"--suite", "--learner", "--backbone"} & set(flags if command == "run" else ()):
        names += words[words.index(flag) : words.index(flag) + 2]  # what there is to set depends on these
    succeed([command, *names, "--help"])
    help_text = capsys.readouterr().out
    for flag in flags:
        assert re.search(rf"{flag}\b", help_text), f"holdfast {command} has no {flag}"


@pytest.mark.parametrize("block", WRITTEN)
def test_commands_of_a_block_that_is_not_run_and_their_flags_exist(
    block: Block, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in commands(block):
        check_flags(words, capsys, monkeypatch)


def modules() -> dict[str, set[str]]:
    """The modules that pages run with `python -m`, and the flags that they give them."""
    found: dict[str, set[str]] = {}
    for page in PAGES:
        for words in (words for block in blocks(page) for words in lines(block)):
            if words[:2] == ["python", "-m"] and words[2] != "holdfast":
                found.setdefault(words[2], set()).update(word for word in words if word.startswith("--"))
    return found


@pytest.mark.parametrize(("module", "flags"), sorted(modules().items()))
def test_a_module_that_a_page_runs_exists_and_has_the_flags_that_the_page_gives_it(
    module: str, flags: set[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_spec(module), f"there is no module {module}"
    if flags:
        monkeypatch.setattr(sys, "argv", [module, "--help"])
        warnings.simplefilter("ignore", RuntimeWarning)  # the module may be imported already
        with pytest.raises(SystemExit) as end:
            run_module(module, run_name="__main__")
        assert not end.value.code
        help_text = capsys.readouterr().out
        assert not [flag for flag in flags if flag not in help_text]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_scripts_and_extras_that_a_page_names_exist(page: Path) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for words in (words for block in blocks(page) for words in lines(block)):
        if words[0] == "python" and words[1] != "-m":
            assert (ROOT / words[1]).exists(), f"{page.name} runs {words[1]}"
        if words[0] == "pip":
            assert re.findall(r"\[(.*)\]", words[-1])[0] in extras, f"{page.name} installs {words[-1]}"


def comparable(text: str) -> str:
    """A text without line breaks and without numbers other than 0."""
    return " ".join(NUMBER.sub(lambda number: number[0] if number[0] == "0" else "#", text).split())


def compare(shown: str, printed: str) -> None:
    """What stands below a command, without the lines left out, is printed in that order."""
    rest = comparable(printed)
    for part in re.split(r"^\.\.\.$", shown, flags=re.MULTILINE):
        before, expected, rest = rest.partition(comparable(part))
        assert expected or not part.strip(), f"not printed, or in another order:\n{part}\nbut:\n{before}"


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("AvgF 0\n...\nend 7", "AvgF 0\nmore\nend 8", True),
        ("AvgF 0", "AvgF 0.5", False),
        ("end\n...\nAvgF 0", "AvgF 0\nend", False),
        ("near enough", "too far", False),
    ],
)
def test_an_output_is_compared_word_by_word_and_in_order(shown: str, printed: str, same: bool) -> None:
    try:
        compare(shown, printed)
    except AssertionError:
        assert not same
    else:
        assert same


@pytest.mark.usefixtures("own_plugins")
@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_what_a_page_shows_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    if "console" not in {block.language for block in blocks(page)}:
        monkeypatch.setitem(BUDGETS["smoke"], "fit.steps", 10)
    monkeypatch.setattr(agent, "BUDGETS", {**agent.BUDGETS, "smoke": 5})
    module = ModuleType("page")  # one namespace for all blocks of a page, with a file, where help texts are read from
    module.__file__ = str(tmp_path / "page.py")
    monkeypatch.setitem(sys.modules, "page", module)
    Path(module.__file__).write_text(python_of(page), encoding="utf-8")
    for block in with_variables(page):
        if written := FILE.match(block.content):
            Path(written[1]).write_text(block.content, encoding="utf-8")
        elif block.language == "python":
            code = "\n" * (block.line - 1) + block.content  # at the page's own lines
            exec(compile(code, module.__file__, "exec"), module.__dict__)
        elif block.language == "sh":
            for words in commands(block):
                succeed(words)
        elif block.language == "console":
            for part in re.split(r"^\$ ", block.content, flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                capsys.readouterr()
                ended = exit_code(holdfast_words(shlex.split(command, comments=True)))
                printed, failed = capsys.readouterr()
                assert bool(ended) == shown.startswith("holdfast: "), f"{command} ended with {ended}: {failed}"
                compare(shown, failed if ended else printed)


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
def test_functions_have_the_parameters_that_a_page_gives_them(page: Path) -> None:
    for match in SIGNATURE.finditer(page.read_text(encoding="utf-8")):
        function = attrgetter(match[2])(import_module(f"holdfast.{match[1].replace('/', '.')}"))
        assert match[3].split(", ") == list(signature(function).parameters), f"{page.name} names {match[0]}"


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_page_begins_with_an_abstract_of_two_sentences_or_more(page: Path) -> None:
    title, abstract = page.read_text(encoding="utf-8").split("\n\n")[:2]
    assert title.startswith("# ")
    assert len(re.findall(r"[.?!)](?=\s|$)", abstract)) >= 2, abstract


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
