"""The table of parts on the page about reuse, which is written by hand, has the numbers of the records."""

import json
import re
from pathlib import Path
from statistics import mean

import pytest

ROOT = Path(__file__).parent.parent
GPU, CPU = "one-step-h200", "one-step"
PRESET = "holdfast-affinity-l"
RECORDS = {  # by the beginning of a row: the names of its folders, on a GPU and on a CPU
    "the preset": (PRESET, PRESET),
    "a change of 5 %": ("private0.05", "private0.05"),
    "a change of 50 %": ("private0.5", "private0.5"),
    "a change of 60 %": ("private0.6", None),
    "a change of 100 %": ("private1.0", None),
    "from the nearest task": ("from-nearest", None),
    "from a random task": ("random-routing", None),
    "biases under masks": (None, "biases-masked-0.3"),
    "norms and biases frozen": (None, "frozen-0.3"),
    "head and encoder private": (None, "head-encoder-0.3"),
    "4 bits": ("private0.3-bits4", "bits4"),
    "8 bits": (None, "bits8"),
    "no change, planned new entries": ("new-planned", "new-planned"),
    "planned new entries, placed by the gradient": (None, "new-planned-gradient"),
    "planned new entries, in the last layers": (None, "new-planned-deep"),
    "planned new entries, in the first layers": (None, "new-planned-shallow"),
    "planned new entries, masks of two tasks": (None, "new-planned-sources2"),
    "planned new entries, a warm start of 0.5": (None, "new-planned-warm0.5"),
    "a change and planned new entries": ("new-planned-private0.3", None),
    "a copy for every task, from the last one": (None, "own-copy-from-last"),
    "a copy for every task, from nothing": ("independent", "independent"),
    "`single`": ("single", "single"),
    "`single --net.width 48`": (None, "width-48"),
    "`packnet`": (None, "packnet"),
    "`multitask`": ("multitask", "multitask"),
}


def rows() -> dict[str, list[str]]:
    """The cells of each row of the table, by its label."""
    page = (ROOT / "docs/results/reuse.md").read_text(encoding="utf-8")
    table = page.split("### What each part contributes")[1].split("\n\n")[2]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    return {label: cells for label, *cells in lines}


def matrices(folder: str, name: str) -> dict[int, dict]:
    """The results of a setting, by seed."""
    found = [path for path in (ROOT / "results/reuse" / folder).iterdir() if re.fullmatch(rf"{name}-s\d+", path.name)]
    return {int(path.name.rpartition("s")[2]): json.loads((path / "matrix.json").read_text()) for path in found}


def success(matrix: dict) -> float:
    return 100 * mean(mean(episodes) for episodes in matrix["successes"][-1])


def cell(folder: str, name: str | None) -> str:
    """The mean success, the difference to the preset with the same seeds, and their number."""
    if name is None:
        return ""
    ours = {seed: success(matrix) for seed, matrix in matrices(folder, name).items()}
    preset = {seed: success(matrix) for seed, matrix in matrices(folder, PRESET).items()}
    if name == PRESET:
        return f"{mean(ours.values()):.1f} ({len(ours)})"
    return f"{mean(ours.values()):.1f} ({mean(ours[seed] - preset[seed] for seed in ours):+.1f}; {len(ours)})"


def test_every_row_has_records():
    assert all(sum(label.startswith(begin) for label in rows()) >= 1 for begin in RECORDS)
    assert all(any(label.startswith(begin) for begin in RECORDS) for label in rows())


@pytest.mark.parametrize("label", rows())
def test_a_row_has_the_numbers_of_its_records(label: str):
    begin = max((begin for begin in RECORDS if label.startswith(begin)), key=len)
    gpu, cpu = RECORDS[begin]
    *told, size = rows()[label]
    assert told == [cell(GPU, gpu), cell(CPU, cpu)]
    name, folder = (gpu, GPU) if gpu else (cpu, CPU)
    stored = mean(matrix["bytes"]["total"] for matrix in matrices(folder, str(name)).values())
    assert size == f"{stored / 1e6:.1f}"
