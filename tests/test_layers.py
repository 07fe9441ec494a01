"""A folder imports only from folders above it, and a file says in its first line what it is."""

import ast
import re
from pathlib import Path

import pytest

import holdfast

SOURCE = Path(holdfast.__file__).parent
ORDER = ["data", "suites", "experts", "nets", "subnets", "routing", "learners", "evaluation", "runs", "report"]
FILES = sorted(SOURCE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    """The folders of holdfast that a file imports from."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            modules |= {node.module} | {f"{node.module}.{name.name}" for name in node.names}
        if isinstance(node, ast.Import):
            modules |= {name.name for name in node.names}
    parts = [module.split(".") for module in modules if module.startswith("holdfast.")]
    return {part[1] for part in parts} & set(ORDER)


@pytest.mark.parametrize("path", [path for path in FILES if path.parent != SOURCE], ids=lambda path: path.stem)
def test_a_folder_imports_only_from_folders_above_it(path):
    place = ORDER.index(path.relative_to(SOURCE).parts[0])
    assert {ORDER.index(folder) for folder in imported(path)} <= set(range(place + 1))


@pytest.mark.parametrize("path", [path for path in FILES if path.read_text()], ids=lambda path: path.stem)
def test_a_file_is_one_sentence_that_stands_in_its_first_line(path):
    sentence = ast.get_docstring(ast.parse(path.read_text()))
    assert sentence, path
    assert path.read_text().startswith('"""')


def test_nothing_is_read_with_pickle():
    for path in FILES:
        text = path.read_text()
        assert "import pickle" not in text, path
        assert "torch.load" not in text, path
        assert "allow_pickle=True" not in text, path


def test_gradients_of_learners_are_taken_in_one_step_and_where_the_fisher_is_measured():
    learners = [path for path in FILES if "experts" not in path.parts]
    found = [path.name for path in learners if re.search(r"\.backward\(\)|autograd\.grad\(", path.read_text())]
    assert sorted(found) == ["descent.py", "ewc.py"]
