"""A wheel has every file that the code reads beside itself."""

import tomllib
from pathlib import Path

import holdfast

SOURCE = Path(holdfast.__file__).parent


def test_every_file_that_is_not_code_is_package_data():
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["holdfast"]
    packaged = {path for pattern in patterns for path in SOURCE.glob(pattern)}
    files = {path for path in SOURCE.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert files == packaged
    assert all(list(SOURCE.glob(pattern)) for pattern in patterns)
