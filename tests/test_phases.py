"""A task may be fitted several times, in named phases: interrupted anywhere, it ends at the same bits."""

import json
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from holdfast.agent.index import Index, fit_state
from holdfast.data.normaliser import Normaliser
from holdfast.learners.dense import Lesson
from holdfast.learners.learner import windows_of
from holdfast.learners.naive import Naive
from holdfast.runs.folder import RunFolder
from holdfast.runs.options import Options
from holdfast.runs.run import run
from holdfast.study.export import loss_curves
from holdfast.training.cache import DiskCache
from holdfast.training.fit import fit
from holdfast.training.recorder import Silent
from holdfast.training.step import Addition, trainable
from tests.kills import Killed, killed_after_every_event
from tests.tiny import QUIET, contents, tiny_learner, tiny_suite

fitting = import_module("holdfast.training.fit")  # not the function
STEPS = 12  # of a phase
SAVED_AT_EVERY_LOSS, SAVED_AT_THE_END_OF_A_PHASE = (
    Options(tensorboard=False, quiet=True, save_every=seconds) for seconds in (0.0, 1e9)
)


class Pruned(Naive):
    """Trains, sets the smallest half of every matrix to zero, and trains again with those entries held there."""

    def fit_task(self, lesson: Lesson) -> None:
        fit(self.net, lesson.windows, self.config.fit, lesson.seed, lesson.recorder, "train")
        held = HeldAtZero(prune(self.net))
        fit(self.net, lesson.windows, self.config.fit, lesson.seed + 1, lesson.recorder, "retrain", held)


class HeldAtZero(Addition):
    """Holds pruned entries at zero."""

    def __init__(self, kept: dict[str, torch.Tensor]) -> None:
        self.kept = kept
        self.steps = torch.zeros(())

    def on_gradients(self, parameters: dict[str, nn.Parameter]) -> None:
        self.steps += 1

    @torch.no_grad()
    def on_step(self, parameters: dict[str, nn.Parameter]) -> None:
        for name, kept in self.kept.items():
            parameters[name] *= kept

    def describe(self) -> dict[str, Any]:
        return {}

    def given(self) -> dict[str, torch.Tensor]:
        return {**self.kept, **self.tensors()}

    def tensors(self) -> dict[str, torch.Tensor]:
        return {"steps": self.steps}


@torch.no_grad()
def prune(net: nn.Module) -> dict[str, torch.Tensor]:
    kept = {}
    for name, parameter in trainable(net).items():
        if parameter.ndim == 2:
            kept[name] = (parameter.abs() > parameter.abs().median()).float()
            parameter *= kept[name]
    return kept


def two_phases() -> Naive:
    learner = tiny_learner("naive", tiny_suite(tasks=2))
    learner.__class__ = Pruned
    return learner  # type: ignore[return-value]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps that were really taken."""
    step, found = fitting.EagerLoop._step, []

    def counted(self: Any, number: int) -> torch.Tensor:
        found.append(number)
        return step(self, number)

    monkeypatch.setattr(fitting.EagerLoop, "_step", counted)
    return found


def curve(path: Path) -> list[tuple]:
    events = [event for event in RunFolder(path).events() if event["kind"] == "train"]
    return [(event["stage"], event["phase"], event["step"], event["loss"]) for event in events]


@pytest.mark.parametrize("options", [SAVED_AT_EVERY_LOSS, SAVED_AT_THE_END_OF_A_PHASE])
def test_a_task_that_is_fitted_twice_takes_all_steps_and_ends_at_the_same_bits_however_often_it_is_saved(
    options: Options, tmp_path: Path, taken: list[int]
) -> None:
    run(tiny_suite(tasks=2), two_phases(), tmp_path / "saved", options)
    assert taken == [*range(STEPS)] * 4
    run(tiny_suite(tasks=2), two_phases(), tmp_path / "plain", QUIET)
    assert contents(tmp_path / "saved") == contents(tmp_path / "plain")


@pytest.mark.parametrize("options", [SAVED_AT_EVERY_LOSS, SAVED_AT_THE_END_OF_A_PHASE])
def test_killed_after_every_event_and_resumed_all_phases_end_at_the_same_bits_with_the_same_losses(
    options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tiny_suite(tasks=2), two_phases(), tmp_path / "whole", QUIET)

    def work() -> None:
        run(tiny_suite(tasks=2), two_phases(), tmp_path / "killed", options)

    assert killed_after_every_event(work, monkeypatch) >= 4
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    assert curve(tmp_path / "killed") == curve(tmp_path / "whole")
    assert [step for _, _, step, _ in curve(tmp_path / "killed")] == [4, 8, 12] * 4


def test_a_finished_phase_takes_no_step_again(
    tmp_path: Path, taken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    prunes = prune

    def killed(net: nn.Module) -> dict[str, torch.Tensor]:
        monkeypatch.setattr(f"{__name__}.prune", prunes)
        raise Killed

    monkeypatch.setattr(f"{__name__}.prune", killed)
    with pytest.raises(Killed):
        run(tiny_suite(tasks=2), two_phases(), tmp_path, SAVED_AT_THE_END_OF_A_PHASE)
    assert taken == [*range(STEPS)]
    run(tiny_suite(tasks=2), two_phases(), tmp_path, SAVED_AT_THE_END_OF_A_PHASE)
    assert taken == [*range(STEPS)] * 4


def test_the_state_of_all_phases_is_removed_with_the_task_and_files_that_no_index_names_stay(tmp_path: Path) -> None:
    seen = []

    class Looks(Pruned):
        def learn(self, *words: Any) -> None:
            super().learn(*words)
            seen.append(sorted(path.name for path in (tmp_path / "run" / "state").iterdir()))
            (tmp_path / "run" / "state" / "fit.0.mine.sealed").write_bytes(b"a user's own")

    learner = two_phases()
    learner.__class__ = Looks
    run(tiny_suite(tasks=2), learner, tmp_path / "run", QUIET)
    own = "fit.0.mine.sealed"
    assert seen == [["fit.0.retrain.sealed", "fit.0.train.sealed"], [own, "fit.1.retrain.sealed", "fit.1.train.sealed"]]
    assert [path.name for path in (tmp_path / "run" / "state").iterdir()] == [own]
    assert RunFolder(tmp_path / "run").store.index.phases == []


def test_a_run_that_fits_once_keeps_the_file_name_of_version_0_1() -> None:
    assert fit_state(3, "task") == "state/fit.3.sealed"
    assert fit_state(3, "train") == "state/fit.3.train.sealed"


def test_cached_phases_give_the_same_bits_though_the_network_is_pruned_between_them(
    tmp_path: Path, taken: list[int]
) -> None:
    options = replace(QUIET, cache=tmp_path / "cache")
    monkey = pytest.MonkeyPatch()
    monkey.setattr(HeldAtZero, "__module__", "holdfast.learners.own")  # as if its code were ours, and so hashed
    try:
        for name in ("first", "second"):
            run(tiny_suite(tasks=2), two_phases(), tmp_path / name, options)
    finally:
        monkey.undo()
    assert len(taken) == 4 * STEPS
    assert contents(tmp_path / "first") == contents(tmp_path / "second")
    assert curve(tmp_path / "first") == curve(tmp_path / "second")


def test_one_phase_twice_in_a_task_is_refused(tmp_path: Path) -> None:
    class Twice(Naive):
        def fit_task(self, lesson: Lesson) -> None:
            for _ in range(2):
                fit(self.net, lesson.windows, self.config.fit, lesson.seed, lesson.recorder, "train")

    learner = tiny_learner("naive")
    learner.__class__ = Twice
    with pytest.raises(ValueError, match="already fitted in phase 'train'"):
        run(tiny_suite(), learner, tmp_path, QUIET)


@pytest.mark.parametrize("phase", ["", "../weights/dense", "a b", "é", "x" * 65])
def test_a_phase_has_a_name_that_can_be_a_part_of_a_files_name(phase: str) -> None:
    with pytest.raises(Exception, match="must be named with letters"):
        Index().with_phase(phase, "")


class Counting(nn.Module):
    """A model whose buffer changes in training, as those of batch norm do."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, batch: Any) -> torch.Tensor:
        self.seen += 1
        return (self.weight**2).sum()

    def describe(self) -> dict[str, Any]:
        return {}


class KeptState(Silent):
    """Keeps the state of phases in memory, and stops after so many saves."""

    def __init__(self, saves: int) -> None:
        self.saves, self.states = saves, dict[str, dict[str, torch.Tensor]]()

    def resume(self, phase: str) -> dict[str, torch.Tensor] | None:
        return self.states.get(phase)

    def due(self) -> bool:
        return True

    def save(self, phase: str, tensors: dict[str, torch.Tensor]) -> None:
        self.states[phase] = {name: tensor.clone() for name, tensor in tensors.items()}
        self.saves -= 1
        if self.saves == 0:
            raise Killed


def test_buffers_that_training_changes_are_resumed_and_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counting, "__module__", "holdfast.nets.own")
    found = tiny_suite(tasks=1)
    learner = tiny_learner("naive", found)
    active = found.interface.actions.active
    windows = windows_of(found.tasks[0].dataset, Normaliser.identity(), active, learner.config, "cpu")
    train = partial(fit, windows=windows, config=learner.config.fit, seed=0, phase="task")
    recorder = KeptState(saves=2)
    with pytest.raises(Killed):
        train(Counting(), recorder=recorder)
    resumed = Counting()
    train(resumed, recorder=recorder)
    caching = Silent()
    caching.cache = DiskCache(tmp_path)
    models = [Counting(), Counting()]
    for model in models:
        train(model, recorder=caching)
    assert [float(model.seen) for model in (resumed, *models)] == [STEPS] * 3


def test_loss_curves_put_the_phases_of_a_task_one_after_the_other(tmp_path: Path) -> None:
    run(tiny_suite(tasks=2), two_phases(), tmp_path, QUIET)
    assert [step for step, _ in loss_curves(RunFolder(tmp_path).events())["NorthEast"]] == [4, 8, 12, 16, 20, 24]


def test_events_of_version_0_1_have_one_phase(tmp_path: Path) -> None:
    found = tiny_suite(tasks=1)
    run(found, tiny_learner("naive", found), tmp_path, QUIET)
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    for line in lines:
        line.pop("phase", None)
        line.pop("phases", None)
    resumed = {"time": 1.0, "kind": "resume", "stage": 0, "task": "NorthEast", "step": 8}
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [*lines, resumed]))
    steps = [event["step"] for event in RunFolder(tmp_path).events() if event["kind"] == "train"]
    assert steps == [4, 8]
