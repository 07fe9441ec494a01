"""A folder reaches only into folders above it, in whatever form, and a file says in its first line what it is."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

import holdfast

SOURCE = Path(holdfast.__file__).parent
ORDER = [
    "gpu",
    "data",
    "tasks",
    "nets",
    "subnets",
    "routing",
    "training",
    "learners",
    "evaluation",
    "agent",
    "runs",
    "benchmarks",
    "study",
    "cli",
]
FIRST = {"errors", "versions", "registry"}  # for all to use; others use all
FILES = sorted(SOURCE.rglob("*.py"))
TOP = {path.stem for path in SOURCE.iterdir() if path.is_dir() or path.suffix == ".py"}  # beside `holdfast` itself
PACKAGE = "holdfast"  # reached where the whole package is, or nobody can tell which part of it

# Who reaches below itself, into what, and why that is right.
KNOWN = {
    ("registry.py", "errors"): "an unknown name is a user's mistake",
    ("registry.py", PACKAGE): "imports what a name stands for when it is first asked for",
    ("registry.py", "benchmarks"): "names the built-in suites, and imports none",
    ("registry.py", "learners"): "names the built-in learners, and imports none",
    ("registry.py", "nets"): "names the built-in backbones, and imports none",
    ("training/cache_key.py", PACKAGE): "hashes the source of the folders that decide a fit, and imports nothing",
    ("study/running.py", "cli"): "names the module that a process of its own runs",
}

NAME = re.compile(r"[a-z_]+(\.\w+)*(:\w+)?")  # holdfast.runs.run, or learners.naive:Naive as in a registry


def reached(code: str, file: str) -> set[str]:
    """The folders of holdfast, and the modules beside them, that the code of a file (its path) reaches."""
    statements = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.stmt)]
    found: set[str] = set()
    places: dict[str, int] = {}  # variables that hold paths
    for statement in sorted(statements, key=lambda one: one.lineno):
        parts = _own_parts(statement)
        names = [name for part in parts for name in (*_imported(part, file), *_in_strings(part, file))]
        found |= {top for top in map(_top, names) if top} | _read(statement, parts, file, places)
    return found


def _own_parts(statement: ast.stmt) -> list[ast.AST]:
    """A statement with all its expressions, without the statements inside it."""
    inside = [child for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.stmt | ast.excepthandler)]
    return [statement, *(part for child in inside for part in ast.walk(child))]


def _top(name: str) -> str | None:
    """The part of holdfast that a dotted name is in; the package if it is in none, and nothing for other packages."""
    package, *rest = name.split(".")
    if package != PACKAGE:
        return None
    return rest[0] if rest and rest[0] in TOP else PACKAGE


def _imported(part: ast.AST, file: str) -> Iterator[str]:
    """What statements import, relative ones too, and what is taken from the package by its attributes."""
    if isinstance(part, ast.Import):
        yield from (name.name for name in part.names if name.name != PACKAGE)  # its attributes tell
    if isinstance(part, ast.ImportFrom):
        module = f"{_package(file, part.level)}.{part.module or ''}".strip(".") if part.level else part.module
        yield from (f"{module}.{name.name}" for name in part.names)
    if isinstance(part, ast.Attribute) and _is_package(part.value) and part.attr != "__file__":
        yield f"{PACKAGE}.{part.attr}"


def _package(file: str, level: int) -> str:
    """The package that so many dots stand for in a file."""
    return ".".join([PACKAGE, *PurePosixPath(file).parts][:-level])


def _is_package(part: ast.AST) -> bool:
    return isinstance(part, ast.Name) and part.id == PACKAGE


def _in_strings(part: ast.AST, file: str) -> Iterator[str]:
    """Modules in strings: of import_module, of importlib.resources, of a registry, of `python -m`."""
    if isinstance(part, ast.JoinedStr) and str(getattr(part.values[0], "value", "")).startswith(f"{PACKAGE}."):
        yield PACKAGE  # nobody can tell what is put in
    if isinstance(part, ast.Constant) and isinstance(part.value, str) and NAME.fullmatch(part.value):
        module, colon, _ = part.value.partition(":")
        first, *rest = module.split(".")
        if first == PACKAGE and rest and rest[0] in TOP:
            yield module
        if colon and first in TOP:
            yield f"{PACKAGE}.{module}"
    if isinstance(part, ast.Call) and _called(part) in ("import_module", "__import__", "files") and part.args:
        name = str(getattr(part.args[0], "value", ""))
        dots = len(name) - len(name.lstrip("."))
        if dots:
            yield f"{_package(file, dots)}.{name[dots:]}"


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _read(statement: ast.stmt, parts: list[ast.AST], file: str, places: dict[str, int]) -> set[str]:
    """The parts of the package that a statement finds from where its file or the package is."""
    begins = [depth for part in parts if (depth := _depth(part, file, places)) is not None]
    if not begins:
        return set()
    depth = min(begins) - sum(map(_climbs, parts))
    words = {word for part in parts if isinstance(part, ast.Constant) for word in str(part.value).split("/")}
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name) and not words & TOP:
        places[statement.targets[0].id] = depth
    if depth == 0:
        return words & TOP or {PACKAGE}
    return words & TOP if depth < 0 and PACKAGE in words else set()


def _depth(part: ast.AST, file: str, places: dict[str, int]) -> int | None:
    """How deep in the package a path begins: 0 is its folder, 1 what lies there; none where no path begins."""
    if isinstance(part, ast.Attribute) and _is_package(part.value) and part.attr == "__file__":
        return 1
    if isinstance(part, ast.Name) and part.id == "__file__":
        return len(PurePosixPath(file).parts)
    if isinstance(part, ast.Call) and _called(part) == "files":
        whole = bool(part.args) and (_is_package(part.args[0]) or getattr(part.args[0], "value", "") == PACKAGE)
        return 0 if whole else None
    return places.get(part.id) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) else None


def _climbs(part: ast.AST) -> int:
    """How many folders up a part of a path goes."""
    if isinstance(part, ast.Attribute) and part.attr == "parent":
        return 1
    if isinstance(part, ast.Subscript) and getattr(part.value, "attr", "") == "parents":
        return 1 + int(getattr(part.slice, "value", 0))
    if isinstance(part, ast.Call) and _called(part) == "dirname":
        return 1
    return str(part.value).split("/").count("..") if isinstance(part, ast.Constant) else 0


def rank(part: str) -> int:
    """The place of a folder in the order, or of a module beside the folders before or after all of them."""
    return ORDER.index(part) if part in ORDER else -1 if part in FIRST else len(ORDER)


def below(path: Path) -> set[str]:
    """What a file reaches that is below it."""
    file = path.relative_to(SOURCE)
    own = file.parts[0].removesuffix(".py")
    return {part for part in reached(path.read_text(), file.as_posix()) if part != own and rank(part) >= rank(own)}


def test_every_folder_has_its_place():
    assert {path.parent.name for path in FILES if path.parent.parent == SOURCE} == set(ORDER)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_a_folder_reaches_only_into_folders_above_it(path):
    if rank(path.relative_to(SOURCE).parts[0].removesuffix(".py")) < len(ORDER):
        known = {part for file, part in KNOWN if file == path.relative_to(SOURCE).as_posix()}
        assert below(path) == known


@pytest.mark.parametrize(
    "code",
    [
        "import holdfast.runs.run",
        "import holdfast.runs as x",
        "from holdfast.runs.run import run",
        "from holdfast import runs",
        "def late():\n    from holdfast import runs",
        "import holdfast\nholdfast.runs.run.run()",
        "from .. import runs",
        "from ..runs import run",
        "from ..runs.run import run as x",
        "import_module('holdfast.runs.run')",
        "importlib.import_module('..runs.run', __package__)",
        "__import__('holdfast.runs')",
        "importlib.resources.files('holdfast.runs') / 'x.json'",
        "files('holdfast').joinpath('runs', 'x.json')",
        "files(holdfast) / 'runs/x.json'",
        "LEARNERS = {'naive': 'holdfast.runs.naive:Naive'}",
        "LEARNERS = {'naive': 'runs.naive:Naive'}",
        "subprocess.run([sys.executable, '-m', 'holdfast.runs.run'])",
        "Path(__file__).parent.parent / 'runs' / 'x.json'",
        "Path(__file__).parents[1] / 'runs'",
        "(Path(__file__).parent / '..' / 'runs').read_text()",
        "with open(os.path.join(os.path.dirname(__file__), '../runs/x.json')) as file:\n    pass",
        "os.path.join(os.path.dirname(os.path.dirname(__file__)), 'runs')",
        "HERE = Path(__file__).parent\nx = HERE.parent / 'runs'",
        "ROOT = Path(__file__).parent.parent\nx = ROOT / 'runs'",
        "Path(holdfast.__file__).parent / 'runs'",
        "Path(__file__).parents[2] / 'holdfast' / 'runs'",
        "async def late(x=Path(__file__).parents[1] / 'runs'):\n    pass",
    ],
)
def test_every_form_of_reaching_into_a_folder_is_seen(code):
    assert "runs" in reached(code, "data/windows.py")


@pytest.mark.parametrize(
    "code", ["from holdfast import run", "from .. import __version__", "import_module(f'holdfast.{name}')"]
)
def test_what_the_package_itself_gives_or_nobody_can_name_is_the_whole_package(code):
    assert reached(code, "data/windows.py") == {PACKAGE}


@pytest.mark.parametrize(
    "code",
    [
        "import torch\nfrom os import path",
        "from . import windows",
        "from .windows import Windows",
        "Path(__file__).with_name('reach.npz')",
        "Path(__file__).parent / 'runs'",
        "files(__package__).joinpath('page.css')",
        "import holdfast\nPath(holdfast.__file__).parents[1]",
        "SETTINGS = {'ewc:strength': 50.0}",
        "CACHE = 'holdfast.npz'",
    ],
)
def test_what_stays_in_its_folder_or_leaves_the_package_reaches_nothing_else(code):
    assert reached(code, "data/windows.py") <= {"data"}


@pytest.mark.parametrize("path", [path for path in FILES if path.read_text()], ids=lambda path: path.stem)
def test_a_file_begins_with_one_sentence_in_one_line(path):
    """Whether the sentence is true, and the only one that the file needs, is for its readers."""
    docstring, first = ast.get_docstring(ast.parse(path.read_text())), path.read_text().splitlines()[0]
    assert docstring
    sentence = docstring.splitlines()[0]
    assert first.removesuffix('"""') == f'"""{sentence}'
    assert re.fullmatch(r"[A-Z].*[^.]\.", sentence)
    assert not re.search(r"[.!?] [A-Z]", sentence), "that is more than one sentence"


def test_no_two_files_begin_with_the_same_sentence():
    sentences = [path.read_text().splitlines()[0] for path in FILES if path.read_text()]
    assert len(set(sentences)) == len(sentences)


def test_nothing_is_read_with_pickle():
    for path in FILES:
        text = path.read_text()
        assert not re.search(r"\b(import|from) (pickle|dill|joblib|shelve|marshal)\b", text), path
        assert "torch.load" not in text, path
        assert "allow_pickle=True" not in text, path


def test_gradients_of_learners_are_taken_in_one_step_and_where_they_are_only_measured():
    learners = [path for path in FILES if "benchmarks" not in path.parts]
    found = [path.name for path in learners if re.search(r"\.backward\(|autograd\.(grad|backward)\(", path.read_text())]
    assert sorted(found) == ["ewc.py", "placement.py", "step.py"]


def test_a_benchmark_can_be_deleted_with_its_folder_and_its_registry_line():
    """Nothing outside `benchmarks/NAME` imports it; the registry names it in a string."""
    for path in FILES:
        file = path.relative_to(SOURCE)
        tree = ast.parse(path.read_text())
        names = {name for part in ast.walk(tree) for name in _imported(part, file.as_posix())}
        reached_benchmarks = {name.split(".")[2] for name in names if name.startswith("holdfast.benchmarks.")}
        own = {file.parts[1]} if file.parts[0] == "benchmarks" else set()
        assert reached_benchmarks <= own, path
