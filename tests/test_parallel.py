"""Several processes that train one run: what comes out is what one process gives with the same batches."""

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as distributed
from safetensors.torch import load_file

import holdfast
from holdfast.agent.progress import FolderRecorder
from holdfast.errors import Mistake
from holdfast.runs.folder import RunFolder
from holdfast.runs.options import Options
from holdfast.runs.run import run
from holdfast.training.ranks import Ranks, ranks
from tests.tiny import QUIET, RETAINING, contents, tiny_learner, tiny_suite, windows_in

LEARNERS = ["naive", "cumulative", "er", "ewc", "si", "l2", "multitask", "single", "lora", "tsn-core", "affinity-l"]
OFTEN = Options(tensorboard=False, save_every=0.0)


def run_tiny(name: str, path: Path, options: Options = QUIET, **settings: Any) -> None:
    """Episodes end early here, so windows, and with them the shares of a batch, differ in length."""
    found = tiny_suite("toy-continuous")
    # Not the default preset: which entries of a new change are the largest is a matter of rounding.
    settings |= {"preset": "paper", "net__dropout": 0.0}
    run(found, tiny_learner(name, found, **settings), path, options)


def together(act: Callable[[Path], None], folder: Path) -> list[int]:
    """Two processes that do this; their exit codes."""
    context = multiprocessing.get_context("forkserver")
    processes = [context.Process(target=_joined, args=(act, folder, rank)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    (folder / "meeting").unlink(missing_ok=True)
    return [process.exitcode or 0 for process in processes]


def _joined(act: Callable[[Path], None], folder: Path, rank: int) -> None:
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    act(folder)
    distributed.destroy_process_group()


def _all_learners(folder: Path) -> None:
    for name in LEARNERS:
        run_tiny(name, folder / name)
    run_tiny("si", folder / "whole", OFTEN)


def _stopped(folder: Path) -> None:
    save, saves = FolderRecorder.save, []

    def save_and_stop(self: FolderRecorder, phase: str, tensors: dict) -> None:
        save(self, phase, tensors)
        saves.append(True)
        if len(saves) == 3:  # in the middle of the second task
            os._exit(7)

    FolderRecorder.save = save_and_stop  # type: ignore[method-assign]
    run_tiny("si", folder / "broken", OFTEN)


def _resumed(folder: Path) -> None:
    run_tiny("si", folder / "broken", OFTEN)
    with pytest.raises(Mistake, match="the processes of this run differ"):
        run_tiny("naive", folder / "other", seed=ranks().rank)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("together")
    assert together(_all_learners, folder) == [0, 0]
    return folder


def losses(path: Path) -> list[float]:
    return [event["loss"] for event in RunFolder(path).events() if event["kind"] == "train"]


@pytest.mark.parametrize("name", LEARNERS)
def test_two_processes_give_what_one_gives_with_the_same_batches(name, trained, tmp_path):
    run_tiny(name, tmp_path)
    assert losses(trained / name) == pytest.approx(losses(tmp_path), rel=1e-4)
    for path in tmp_path.glob("weights/*.safetensors"):
        alone, shared = load_file(path), load_file(trained / name / "weights" / path.name)
        for key, tensor in alone.items():
            assert torch.allclose(tensor.float(), shared[key].float(), rtol=1e-3, atol=1e-4), (path.name, key)


@pytest.mark.parametrize("name", [name for name in LEARNERS if name in RETAINING])
def test_what_two_processes_learned_is_equal_to_the_bit_after_every_later_task(name, trained):
    found: dict[str, set[str]] = {}
    for certificate in RunFolder(trained / name).read_certificates():
        found.setdefault(certificate.task, set()).add(certificate.fingerprint)
    assert len(found) == 3
    assert all(len(prints) == 1 for prints in found.values())


def test_two_processes_killed_and_started_again_give_the_same_bits(trained):
    assert together(_stopped, trained)[0] == 7
    assert together(_resumed, trained) == [0, 0]
    assert contents(trained / "broken") == contents(trained / "whole")


def test_a_run_is_gone_on_with_by_as_many_processes_as_began_it(trained, tmp_path):
    record = json.loads((trained / "naive" / "config.json").read_text())
    assert record["processes"] == 2
    (tmp_path / "config.json").write_text(json.dumps(record))
    with pytest.raises(Mistake, match="a run of 2 processes, not 1"):
        run_tiny("naive", tmp_path)


def test_a_batch_has_a_window_for_every_process():
    source = windows_in(tiny_learner("naive"), tiny_suite().tasks[0])
    with pytest.raises(Mistake, match="at least the number of processes, got 2 for 3"):
        Ranks(0, 3).sample(source, 2, None)  # type: ignore[arg-type]


def test_torchrun_trains_one_run_and_keeps_one_record(tmp_path):
    words = "run --suite toy --learner affinity-l --budget smoke --no-tensorboard --order NorthEast SouthWest --out"
    source = str(Path(holdfast.__file__).parents[1])
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*torchrun, "-m", "holdfast", *words.split(), "run"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("certificate: every task equal to the bit") == 1
    record = json.loads((tmp_path / "run" / "config.json").read_text())
    assert record["command"] == f"torchrun --nproc-per-node 2 -m holdfast {words} run"
    found = tiny_suite()
    assert set(RunFolder(tmp_path / "run").read_matrix().task_copy) == set(found.names[:2])
