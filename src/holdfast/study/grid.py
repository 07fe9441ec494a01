"""A grid: a TOML file of runs, in parts that are products of settings."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from holdfast.agent.settings import flattened
from holdfast.data.files import read_bytes
from holdfast.errors import Mistake

GridSettings = dict[str, Any]  # by dotted name; a list has one value per run
ALL, OUT = "all", "out"
RENAMED = {"single": "reference"}  # settings of older grids


@dataclass(frozen=True)
class Grid:
    """A grid file: parts by name, each a list of products."""

    path: Path
    out: Path
    common: GridSettings
    parts: Mapping[str, list[GridSettings]]


def read_grid(path: Path, out: Path | None = None, budget: str | None = None) -> Grid:
    """The grid in a file; `out` and `budget` replace its own, and without any `out` its runs go to runs/."""
    record = _read_toml(path)
    place, common = record.pop(OUT, f"runs/{path.stem}"), record.pop(ALL, {})
    if not isinstance(place, str):
        raise Mistake(f"{path}: {OUT} must be the name of a folder, not {place!r}")
    if not isinstance(common, dict):
        raise Mistake(f"{path}: {ALL!r} must hold the settings of all runs: write [{ALL}] and settings under it")
    for name, part in record.items():
        if not (isinstance(part, list) and part and all(isinstance(block, dict) for block in part)):
            raise Mistake(f"{path}: {name!r} must be a part of the grid: write [[{name}]] and settings under it")
    if not record:
        raise Mistake(f"{path} has no runs: write [[main]] and settings under it")
    instead = {"budget": budget} if budget else {}
    parts = {name: [{**_settings(path, block), **instead} for block in part] for name, part in record.items()}
    return Grid(path, out or Path(place), _settings(path, common), parts)


def _read_toml(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise Mistake(f"there is no grid {path}")
    try:
        return tomllib.loads(read_bytes(path).decode())
    except (ValueError, RecursionError) as problem:
        raise Mistake(f"{path} is not TOML: {problem}") from None


def _settings(path: Path, table: Mapping[str, Any]) -> GridSettings:
    try:
        settings = {RENAMED.get(name, name): value for name, value in flattened(table)}
    except RecursionError:
        raise Mistake(f"{path} is nested too deeply: no setting has a name that long") from None
    for name, value in settings.items():
        if value == []:
            raise Mistake(f"{path}: {name} = [] gives no runs: write a value, or leave it out")
    return settings


def combinations(block: GridSettings) -> Iterator[GridSettings]:
    """The product of all lists; seeds change fastest, so that runs started together share few fits."""
    names = sorted(block, key=lambda name: name == "seed")
    lists = [block[name] if isinstance(block[name], list) else [block[name]] for name in names]
    for values in product(*lists):
        chosen = dict(zip(names, values, strict=True))
        yield {name: chosen[name] for name in block}
