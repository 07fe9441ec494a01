"""A fit that was done before is recalled to the bit, and nothing else ever is."""

import errno
import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from holdfast.agent.progress import FolderRecorder
from holdfast.data.locks import locked
from holdfast.data.windows import Mixture
from holdfast.learners.anchor import Anchor
from holdfast.learners.learner import windows_of
from holdfast.learners.si import Path as Path_
from holdfast.registry import Plugin
from holdfast.runs.folder import RunFolder
from holdfast.runs.run import run
from holdfast.tasks.processes import forkserver
from holdfast.training import cache_key
from holdfast.training.cache import Cache, DiskCache, KeyFunction
from holdfast.training.config import FitConfig
from holdfast.training.fit import fit
from holdfast.training.recorder import Silent
from holdfast.training.step import Trainer
from tests.test_mistakes import command as mistake
from tests.tiny import ALL, IN_TURN, PATIENCE, QUIET, SPARSE, contents, tiny_learner, tiny_suite, windows_in

fitting = import_module("holdfast.training.fit")  # not the function


def run_tiny(name: str, path: Path, cache: Path | None = None, **settings: Any) -> None:
    found = tiny_suite()
    run(found, tiny_learner(name, found, **settings), path, replace(QUIET, cache=cache))


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of model that were really trained."""
    train, seen = fitting.train, []

    def counted(trainer: Trainer, *others: Any, **more: Any) -> list[float]:
        seen.append(type(trainer.model).__name__)
        return train(trainer, *others, **more)

    monkeypatch.setattr(fitting, "train", counted)
    return seen


def curve(path: Path) -> list[tuple]:
    events = [event for event in RunFolder(path).events() if event["kind"] == "train"]
    return [(event["stage"], event["step"], event["loss"]) for event in events]


@pytest.mark.parametrize("name", ALL)
def test_a_recalled_run_equals_a_trained_one_to_the_bit(name, tmp_path, trained):
    run_tiny(name, tmp_path / "plain")
    run_tiny(name, tmp_path / "first", tmp_path / "cache")
    fits = len(trained) // 2
    assert fits >= (3 if name in IN_TURN else 1)  # a task has at least one, or all tasks together
    run_tiny(name, tmp_path / "second", tmp_path / "cache")
    assert len(trained) == 2 * fits
    assert contents(tmp_path / "plain") == contents(tmp_path / "first") == contents(tmp_path / "second")
    assert curve(tmp_path / "plain") == curve(tmp_path / "second")


@pytest.mark.parametrize("name", ["si", "affinity-l"])
def test_recalled_in_the_middle_and_trained_on_equals_trained(name, tmp_path, trained):
    """Only the first task is known: what follows must find everything as training would have left it."""
    run_tiny(name, tmp_path / "plain", seed=3)
    found = tiny_suite()
    learner = tiny_learner(name, found, seed=3)
    learner.learn = _only_once(learner.learn)  # type: ignore[method-assign]
    with pytest.raises(StopIteration):
        run(found, learner, tmp_path / "first", replace(QUIET, cache=tmp_path / "cache"))
    run_tiny(name, tmp_path / "second", tmp_path / "cache", seed=3)
    assert len(trained) == 3 + 1 + 2
    assert contents(tmp_path / "plain") == contents(tmp_path / "second")


def _only_once(learn: Callable) -> Callable:
    calls = iter([learn])
    return lambda *words: next(calls)(*words)


def test_the_first_task_of_all_sparse_learners_and_thresholds_is_trained_once(tmp_path, trained):
    for name in SPARSE:
        found = tiny_suite(tasks=1)
        learner = tiny_learner(name, found, preset="paper")
        run(found, learner, tmp_path / name, replace(QUIET, cache=tmp_path / "cache"))
    for threshold in (1.0, 2.0):
        found = tiny_suite(tasks=1)
        learner = tiny_learner("affinity-a", found, preset="paper", routing__threshold=threshold)
        run(found, learner, tmp_path / str(threshold), replace(QUIET, cache=tmp_path / "cache"))
    assert len(trained) == 1


def test_the_first_task_of_naive_cumulative_and_every_ewc_is_trained_once_and_si_once_more(tmp_path, trained):
    for name, settings in [
        ("naive", {}),
        ("cumulative", {}),
        ("ewc", {"strength": 1.0}),
        ("ewc", {"strength": 2.0}),
        ("si", {"strength": 1.0}),
        ("si", {"strength": 2.0}),
    ]:
        found = tiny_suite(tasks=1)
        path = tmp_path / f"{name}{settings.get('strength')}"
        run(found, tiny_learner(name, found, **settings), path, replace(QUIET, cache=tmp_path / "cache"))
    assert len(trained) == 2


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "other"])
def test_a_damaged_entry_is_found_out_and_trained_again(damage, tmp_path, trained):
    run_tiny("naive", tmp_path / "plain", tmp_path / "cache")
    for path in (tmp_path / "cache").glob("*.sealed"):
        content = path.read_bytes()
        flipped = content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]
        path.write_bytes({"cut": content[:-1], "flip": flipped, "empty": b"", "other": b"x" * 200}[damage])
    run_tiny("naive", tmp_path / "again", tmp_path / "cache")
    assert len(trained) == 6
    run_tiny("naive", tmp_path / "mended", tmp_path / "cache")
    assert len(trained) == 6
    assert contents(tmp_path / "plain") == contents(tmp_path / "again") == contents(tmp_path / "mended")


def test_interrupted_and_recalled_tells_each_loss_once(tmp_path, monkeypatch):
    run_tiny("naive", tmp_path / "plain", tmp_path / "cache")

    def stop(self: FolderRecorder, phase: str, tensors: dict) -> None:
        save(self, phase, tensors)
        raise InterruptedError

    save, found = FolderRecorder.save, tiny_suite()
    monkeypatch.setattr(FolderRecorder, "save", stop)
    with pytest.raises(InterruptedError):
        run(found, tiny_learner("naive", found), tmp_path / "broken", replace(QUIET, save_every=0.0))
    run_tiny("naive", tmp_path / "broken", tmp_path / "cache")
    assert curve(tmp_path / "plain") == curve(tmp_path / "broken")
    assert contents(tmp_path / "plain") == contents(tmp_path / "broken")


def test_an_interrupted_fit_that_was_resumed_is_remembered_whole(tmp_path, monkeypatch):
    save, stops = FolderRecorder.save, [True]

    def stop(self: FolderRecorder, phase: str, tensors: dict) -> None:
        save(self, phase, tensors)
        if stops and stops.pop():
            raise InterruptedError

    monkeypatch.setattr(FolderRecorder, "save", stop)
    options = replace(QUIET, save_every=0.0, cache=tmp_path / "cache")
    found = tiny_suite()
    with pytest.raises(InterruptedError):
        run(found, tiny_learner("naive", found), tmp_path / "broken", options)
    run(found, tiny_learner("naive", found), tmp_path / "broken", options)
    run_tiny("naive", tmp_path / "recalled", tmp_path / "cache")
    assert curve(tmp_path / "recalled") == curve(tmp_path / "broken")
    assert len(curve(tmp_path / "recalled")) == 9


def go_on(path: Path, code: str, cache: Path | None, stops: bool) -> None:
    """A run by this code, until a fit was saved, or to the end."""
    save, found = FolderRecorder.save, tiny_suite()

    def stop(self: FolderRecorder, phase: str, tensors: dict) -> None:
        save(self, phase, tensors)
        if stops:
            raise InterruptedError

    with pytest.MonkeyPatch.context() as patch, pytest.raises(InterruptedError) if stops else nullcontext():
        patch.setattr(cache_key, "our_code", lambda *folders: code)
        patch.setattr(FolderRecorder, "save", stop)
        run(found, tiny_learner("naive", found), path, replace(QUIET, save_every=0.0, cache=cache))


@pytest.mark.parametrize(
    ("codes", "known"),
    [
        (["new", "new"], 3),
        (["old", "new"], 2),
        (["new", "old", "new"], 2),  # the last save is of a mix, though it began as what it ends as
        ([None, "new"], 2),  # without a cache nobody asked whose steps they are
        (["new", None, "new"], 2),
    ],
)
def test_a_resumed_fit_is_remembered_only_if_the_same_code_took_all_its_steps(codes, known, tmp_path):
    for count, code in enumerate(codes, start=1):
        go_on(tmp_path / "run", str(code), tmp_path / "cache" if code else None, stops=count < len(codes))
    fits = [path for path in (tmp_path / "cache").glob("*.sealed") if b'"losses"' in path.read_bytes()]
    assert len(fits) == known


# What decides a fit


def parts(learner: str = "tsn-core", **settings: Any) -> dict[str, Any]:
    """All that goes into a fit, as a learner puts it in."""
    found, caught = tiny_suite(), {}

    def catch(model: nn.Module, windows: Any, config: FitConfig, seed: int, recorder: Any, *last: Any) -> None:
        caught.update(zip(("phase", "addition"), last, strict=False))
        caught.update(model=model.train(), windows=windows, config=config, seed=seed)
        raise StopIteration

    made = tiny_learner(learner, found, **settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_module(type(made).__module__), "fit", catch)
        with pytest.raises(StopIteration):
            made.learn(found.tasks[0])
    return caught


class Asked(Cache):
    """Hears what a fit asks for, and lets it go no further."""

    def entries(self, keys: Sequence[KeyFunction]) -> Any:
        self.key = keys[0]()
        raise LookupError


def key(found: dict[str, Any]) -> str | None:
    """What `fit` itself asks a cache for."""
    recorder = Silent()
    recorder.cache = asked = Asked()
    with pytest.raises(LookupError):
        fit(**found, recorder=recorder)
    return asked.key


@pytest.mark.parametrize("name", ALL)
def test_the_same_fit_made_anew_has_the_same_key(name):
    assert key(parts(name)) is not None
    assert key(parts(name)) == key(parts(name))


OTHER = {
    "net.heads": 1,  # the same tensors, used otherwise
    "net.dropout": 0.2,
    "net.context": 3,
    "subnets.keep": 0.34,
    "subnets.exclude": (),
    "seed": 1,
}
FITS = {
    "steps": 13,
    "batch": 9,
    "learning_rate": 1e-3,
    "schedule": "one-cycle",
    "weight_decay": 0.2,
    "clip": 2.0,
    "sampling": "windows",
    "whole": False,
    "packed": False,
    "precision": "float32",
    "captured": False,
    "return_scale": 7.0,
    "log_every": 3,
}


def test_every_setting_of_a_fit_is_listed_here():
    assert set(FITS) == {field.name for field in fields(FitConfig)}


@pytest.mark.parametrize(("name", "value"), [*OTHER.items(), *((f"fit.{name}", value) for name, value in FITS.items())])
def test_another_setting_has_another_key(name, value):
    assert key(parts()) != key(parts(**{name.replace(".", "__"): value}))


def _flip(tensor: torch.Tensor) -> None:
    flat = tensor.detach().view(-1)
    if flat.is_floating_point():
        flat[-1] = torch.nextafter(flat[-1], flat[-1] + 1)
    else:
        flat[-1] = 1 - flat[-1].int()


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a weight": lambda found: _flip(found["model"].free),
    "a score": lambda found: _flip(found["model"].scores),
    "a frozen weight": lambda found: _flip(found["model"].frozen),
    "an occupied entry": lambda found: _flip(found["model"].occupied),
    "which entries may be selected": lambda found: _flip(found["model"].quotas),
    "how many are selected": lambda found: found["model"].selector.counts[0].__setitem__(0, 1),
    "what is trained": lambda found: found["model"].outside[0].requires_grad_(False),
    "a parameter outside": lambda found: _flip(found["model"].outside[-1]),
    "a seed": lambda found: found.update(seed=found["seed"] + 1),
    "an addition": lambda found: found.update(addition=Anchor(1.0, {"w": torch.ones(1)}, {"w": torch.ones(1)})),
    "threads": lambda found: torch.set_num_threads(2),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_key_covers(change):
    found, threads = parts(), torch.get_num_threads()
    before = key(found)
    try:
        CHANGES[change](found)
        assert key(found) != before
    finally:
        torch.set_num_threads(threads)


def test_the_key_covers_data_and_what_is_replayed():
    found, suite = parts("naive"), tiny_suite()
    first, second, third = (windows_in(tiny_learner("naive", suite), task) for task in suite.tasks)
    mixed = [Mixture(first, [second], 0.5), Mixture(first, [third], 0.5), Mixture(first, [second], 0.25)]
    assert len({key({**found, "windows": windows}) for windows in (first, second, *mixed)}) == 5


def test_the_key_covers_how_observations_are_scaled_and_which_actions_count():
    found, task = parts("naive"), tiny_suite().tasks[0]
    config, scaled = tiny_learner("naive").config, task.interface.normaliser(task.dataset)
    shifted, stretched = replace(scaled, shift=scaled.shift + 1), replace(scaled, scale=scaled.scale * 2)
    made = [windows_of(task.dataset, scaling, torch.ones(1), config, "cpu") for scaling in (scaled, shifted, stretched)]
    made.append(windows_of(task.dataset, scaled, torch.zeros(1), config, "cpu"))
    assert len({key({**found, "windows": windows}) for windows in made}) == 4


def test_the_key_covers_what_holds_parameters_and_how_strongly():
    found = parts("naive")
    one, two = {"w": torch.ones(2)}, {"w": torch.full((2,), 2.0)}
    anchors = [Anchor(1.0, one, one), Anchor(2.0, one, one), Anchor(1.0, two, one), Anchor(1.0, one, two)]
    paths = [Path_(anchor, {}) for anchor in anchors]
    assert len({key({**found, "addition": addition}) for addition in (None, *anchors, *paths)}) == 9


def test_the_order_in_which_a_file_was_read_changes_no_key():
    found, ones = parts("naive"), {"a": torch.ones(1), "b": torch.ones(1)}
    backwards = dict(reversed(ones.items()))
    anchors = [Anchor(1.0, ones, dict(ones)), Anchor(1.0, backwards, dict(backwards))]
    assert len({key({**found, "addition": anchor}) for anchor in anchors}) == 1


def test_the_key_covers_the_phase():
    found = parts()
    assert key(found) != key({**found, "phase": "retrain"})


def test_the_key_covers_buffers_their_names_types_and_shapes():
    one = torch.zeros(4)
    others = [one.view(2, 2), one.int(), one + 1, one.clone().requires_grad_()]
    hashes = [cache_key.tensors_hash({"a": tensor}) for tensor in (one, *others)] + [cache_key.tensors_hash({"b": one})]
    assert len(set(hashes)) == 6
    found = parts()
    before = key(found)
    found["model"].register_buffer("another", torch.zeros(1), persistent=False)
    assert key(found) != before


def test_the_key_covers_the_class_of_every_module():
    found = parts("naive")
    before = key(found)
    found["model"].trunk.__class__ = nn.Sequential
    assert key(found) != before


def test_the_key_covers_plugins_and_installed_packages(monkeypatch, tmp_path):
    found = parts()
    keys = [key(found)]
    monkeypatch.setattr(cache_key, "PLUGINS", [Plugin(tmp_path / "own.py", "0" * 64, b"")])
    keys.append(key(found))
    package = tmp_path / "holdfast_more"
    package.mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(cache_key, "installed_packages", lambda: ["holdfast_more"])
    for source in ("VERSION = 1", "VERSION = 2"):  # of an editable install, which has one version
        (package / "__init__.py").write_text(source)
        cache_key._package_code.cache_clear()
        keys.append(key(found))
    assert len(set(keys)) == 4


def test_the_key_covers_our_own_code(monkeypatch):
    found = parts()
    before = key(found)
    monkeypatch.setattr(cache_key, "our_code", lambda *folders: "changed")
    assert key(found) != before


def test_the_key_covers_where_it_runs(monkeypatch):
    found = parts()
    before = key(found)
    monkeypatch.setattr(cache_key, "_processor", lambda: "another")
    assert key(found) != before


class Foreign(nn.Module):
    """Describes itself, but its code is hashed nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(2))

    def describe(self) -> dict[str, Any]:
        return {}


class ForeignAnchor(Anchor):
    """An addition whose code is hashed nowhere."""


def test_a_model_or_an_addition_whose_code_is_hashed_nowhere_is_never_cached(monkeypatch, tmp_path):
    found = parts("naive")
    plugin = Plugin(tmp_path / "own.py", "0" * 64, b"")
    for other in ({"model": Foreign()}, {"addition": ForeignAnchor(1.0, {}, {})}):
        assert key({**found, **other}) is None
    monkeypatch.setattr(cache_key, "PLUGINS", [plugin])
    monkeypatch.setattr(Foreign, "__module__", plugin.module)
    assert key({**found, "model": Foreign()}) is not None


def test_a_model_with_a_part_whose_code_is_hashed_nowhere_is_never_cached():
    found = parts("naive")
    found["model"].own = Foreign()
    assert key(found) is None


def test_a_model_that_does_not_describe_itself_is_never_cached():
    assert key({**parts("naive"), "model": nn.Linear(1, 1)}) is None


def _train_while_another_waits(folder: Path, number: int, both_ask: Barrier) -> None:
    torch.set_num_threads(1)
    train, entry = fitting.train, DiskCache.entry

    def ask(self: DiskCache, key: Any) -> Any:
        both_ask.wait(PATIENCE)
        return entry(self, key)

    def slow(*words: Any, **more: Any) -> list[float]:
        (folder / f"trained-{number}").touch()
        time.sleep(0.5)  # so that the other one is at the lock; the law holds also if it is not there yet
        return train(*words, **more)

    fitting.train, DiskCache.entry = slow, ask  # type: ignore[method-assign]
    found = tiny_suite(tasks=1)
    options = replace(QUIET, cache=folder / "cache", evaluate="none")  # evaluations ask the cache as well
    run(found, tiny_learner("naive", found), folder / f"run-{number}", options)


def test_two_that_want_the_same_fit_at_once_train_it_once(tmp_path):
    context = forkserver()
    target, both_ask = _train_while_another_waits, context.Barrier(2)
    processes = [context.Process(target=target, args=(tmp_path, number, both_ask)) for number in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert len(list(tmp_path.glob("trained-*"))) == 1
    assert contents(tmp_path / "run-0") == contents(tmp_path / "run-1")


def _hold(path: Path, held: Connection) -> None:
    with locked(path):
        held.send(True)
        signal.pause()


def test_a_lock_goes_with_the_process_that_held_it(tmp_path):
    context = forkserver()
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_hold, args=(tmp_path / "a.lock", there))
    process.start()
    assert here.recv()
    process.kill()
    with locked(tmp_path / "a.lock"):
        pass
    process.join()


def test_a_recall_is_told(tmp_path):
    run_tiny("naive", tmp_path / "first", tmp_path / "cache")
    run_tiny("naive", tmp_path / "second", tmp_path / "cache")
    kinds = {
        name: [json.loads(line)["kind"] for line in (tmp_path / name / "events.jsonl").read_text().splitlines()]
        for name in ("first", "second")
    }
    assert (kinds["first"].count("recall"), kinds["second"].count("recall")) == (0, 3)


def test_without_a_cache_nothing_is_hashed(monkeypatch):
    def never(*things: Any, **more: Any) -> str:
        raise AssertionError

    monkeypatch.setattr(fitting, "fit_key", never)
    found = parts("naive")
    fit(found["model"], found["windows"], found["config"], 0, Silent(), "task")


def test_a_cache_can_be_deleted_while_a_run_goes_on(tmp_path):
    cache = DiskCache(tmp_path / "cache")
    with cache.entry(lambda: "a") as entry:
        entry.write({"w": torch.ones(2)})
    for path in (tmp_path / "cache").iterdir():
        path.unlink()
    (tmp_path / "cache").rmdir()
    with cache.entry(lambda: "a") as entry:
        assert entry.read() is None


@pytest.mark.parametrize("barred", [".lock", ".sealed", ".sealed.part"])
def test_a_cache_that_cannot_be_written_costs_a_run_nothing_but_time(barred, tmp_path, trained):
    run_tiny("naive", tmp_path / "first", tmp_path / "cache")
    for path in (tmp_path / "cache").glob("*.sealed"):
        path.unlink()
        place = path.with_suffix(barred)
        place.unlink(missing_ok=True)
        place.mkdir()  # as good as a folder that is read-only, also for the superuser
    run_tiny("naive", tmp_path / "second", tmp_path / "cache")
    assert len(trained) == 6
    assert contents(tmp_path / "first") == contents(tmp_path / "second")


def test_a_full_disk_leaves_a_cache_without_halves_and_a_run_whole(tmp_path, monkeypatch):
    fsync = os.fsync

    def full(file: int) -> None:
        if Path(os.readlink(f"/proc/self/fd/{file}")).parent == tmp_path / "cache":
            raise OSError(errno.ENOSPC, "no space left on device")
        fsync(file)

    monkeypatch.setattr(os, "fsync", full)
    run_tiny("naive", tmp_path / "run", tmp_path / "cache")
    assert RunFolder(tmp_path / "run").learned == 3
    assert {path.suffix for path in (tmp_path / "cache").iterdir()} == {".lock"}


@pytest.mark.parametrize("place", ["/dev/null", "/dev/null/x", "/proc/x"])
def test_what_cannot_be_a_cache_is_said_before_a_run_begins(place, tmp_path, capsys):
    words = ("run", "--budget", "smoke", "--out", str(tmp_path / "run"), "--memo", place)
    assert f"{place} cannot be a cache" in mistake(capsys, *words)
    assert not (tmp_path / "run").exists()
