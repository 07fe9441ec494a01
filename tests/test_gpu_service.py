"""A sweep starts NVIDIA's multi-process service for itself alone, and stops it however the sweep ends."""

import ctypes
import json
import os
import signal
import stat
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from bench import beside

import holdfast
from holdfast.cli.main import main
from holdfast.gpu.waiting import BLOCK, wait_asleep
from holdfast.study.engines import Resources, engine_for
from holdfast.study.gpu_service import PROGRAM, gpu_service
from holdfast.study.local import LocalEngine, gpus_here, places_here
from holdfast.tasks.processes import CORES
from tests.test_mistakes import command as mistake
from tests.test_sweep import QUICK, grid, jobs_of, sweep
from tests.tiny import PATIENCE

PIPE, LOG = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
FAKE = f"""#!/bin/sh
if [ "$1" = -d ]; then said=start; else read said; fi
echo "$said ${PIPE} ${LOG} $CUDA_VISIBLE_DEVICES" >> {{calls}}
"""
# Every process of a run writes which service it uses, and then waits for the end of the sweep, if it is told to.
RUN = """
import os, pathlib, sys
if "holdfast.cli.sweep_process" in sys.orig_argv:
    with pathlib.Path({seen!r}).open("a") as file:
        file.write(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "none") + chr(10))
    if {waits}:
        sys.stdin.buffer.read()
        os._exit(1)
"""
ON_GPU = f'{QUICK}[[a]]\nlearner="naive"\ndevice="cuda"\nseed=[0, 1]\n'


@dataclass(frozen=True)
class Service:
    """A program in place of NVIDIA's, and what it was told."""

    place: Path

    def install(self, script: str = FAKE) -> None:
        """Puts the program where PATH finds it."""
        program = self.place / "bin" / PROGRAM
        program.parent.mkdir(exist_ok=True)
        program.write_text(script.format(calls=self.place / "calls"))
        program.chmod(0o755)

    def watch(self, patch: pytest.MonkeyPatch, waits: bool = False) -> None:
        """Lets the processes of runs write which service they use."""
        (self.place / "site").mkdir()
        (self.place / "site" / "sitecustomize.py").write_text(RUN.format(seen=str(self.place / "seen"), waits=waits))
        patch.setenv("PYTHONPATH", str(self.place / "site"), prepend=os.pathsep)

    @property
    def calls(self) -> list[list[str]]:
        """What it was told, and with which folders: first word, pipe, log, visible GPUs."""
        file = self.place / "calls"
        return [line.split(" ") for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def seen(self) -> list[str]:
        """The folders of the service that runs used."""
        file = self.place / "seen"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def service(tmp_path, monkeypatch) -> Service:
    """The program is there, and somebody else has a service; there is no GPU."""
    found = Service(tmp_path)
    found.install()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setenv(PIPE, "/somebody/else")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    return found


def started_and_stopped_once(service: Service) -> str:
    """The folder of the service, which is private and gone."""
    (start, *began), (quit_, *ended) = service.calls
    pipe, log, visible = began
    assert (start, quit_) == ("start", "quit")
    assert began == ended
    assert visible == ""  # it serves all GPUs by their usual numbers
    assert Path(pipe).parent == Path(log).parent != Path("/somebody")
    assert not Path(pipe).parent.exists()
    return pipe


def test_runs_get_the_folders_of_one_service_which_is_stopped_when_all_are_done(service, tmp_path, monkeypatch):
    service.watch(monkeypatch)
    found = grid(tmp_path, f'{QUICK}[[a]]\nlearner="naive"\nseed=[0, 1]\nfit.steps=5\n')
    outcomes = sweep(found, LocalEngine(2, [], gpu_service()))
    assert [outcome.state for outcome in outcomes] == ["done", "done"]
    assert service.seen == [started_and_stopped_once(service)] * 2


def test_the_service_is_stopped_when_runs_have_failed(service, tmp_path, monkeypatch):
    service.watch(monkeypatch)
    found = grid(tmp_path, ON_GPU)  # there is no GPU
    with pytest.raises(SystemExit) as end:
        main(["sweep", str(found.path), "--out", str(found.out), "--gpu-service", "--at-once", "2"])
    assert end.value.code == 1
    assert service.seen == [started_and_stopped_once(service)] * 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_service_is_stopped_when_the_sweep_is_interrupted_or_killed(number, service, tmp_path, monkeypatch):
    service.watch(monkeypatch, waits=True)
    found = grid(tmp_path, ON_GPU)
    words = ["sweep", str(found.path), "--out", str(found.out), "--gpu-service", "--at-once", "2"]
    paths = os.pathsep.join([os.environ["PYTHONPATH"], str(Path(holdfast.__file__).parents[1])])
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", *words], env={**os.environ, "PYTHONPATH": paths}, start_new_session=True
    )
    deadline = time.monotonic() + PATIENCE
    while len(service.seen) < 2:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert [call[0] for call in service.calls] == ["start"]
    os.killpg(process.pid, number)  # as a terminal does
    assert process.wait() == (130 if number == signal.SIGINT else -number)
    while Path(service.seen[0]).parent.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert service.seen == [started_and_stopped_once(service)] * 2


def test_the_folders_are_the_owners_alone(service):
    with gpu_service() as variables:
        folders = [Path(variables[name]) for name in (PIPE, LOG)]
        modes = {stat.S_IMODE(folder.stat().st_mode) for one in folders for folder in (one, one.parent)}
        assert modes == {0o700}


def test_without_the_flag_no_service_is_started(service, tmp_path):
    found = grid(tmp_path, f'{QUICK}[[a]]\nlearner="naive"\n')
    with engine_for("local", jobs_of(found), "cpu", found.out, Resources()):
        assert service.calls == []


def test_without_the_program_a_sentence_says_so_before_a_run_starts(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = grid(tmp_path, ON_GPU)
    words = ["sweep", str(found.path), "--out", str(found.out), "--gpu-service"]
    assert f"needs the program {PROGRAM}" in mistake(capsys, *words)
    assert not found.out.exists()


def test_a_service_that_does_not_start_is_one_sentence_with_its_reason(service, tmp_path, monkeypatch, capsys):
    service.install("#!/bin/sh\necho 'no such\ndriver' >&2\nexit 1\n")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    found = grid(tmp_path, ON_GPU)
    said = mistake(capsys, "sweep", str(found.path), "--out", str(found.out), "--gpu-service")
    assert said == f"holdfast: {PROGRAM} does not start (no such driver): leave out --gpu-service"
    assert not found.out.exists()
    assert list((tmp_path / "temporary").iterdir()) == []


def test_on_ray_or_without_a_run_on_a_gpu_the_flag_is_refused(service, tmp_path, capsys):
    words = ["sweep", str(grid(tmp_path, ON_GPU).path), "--gpu-service"]
    assert "use --on local" in mistake(capsys, *words, "--on", "ray")
    words = ["sweep", str(grid(tmp_path, '[[a]]\nlearner="naive"\n').path), "--gpu-service"]
    assert "use --device cuda" in mistake(capsys, *words)
    assert service.calls == []


def test_runs_have_the_gpus_that_the_sweep_may_use_by_their_own_names(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert gpus_here() == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-1f")
    assert gpus_here() == ["3", "GPU-1f"]


@pytest.mark.parametrize(
    ("gpus", "cores", "threads", "places"), [(1, 16, 1, 8), (1, 4, 1, 4), (1, 16, 4, 4), (2, 64, 1, 16), (2, 1, 1, 2)]
)
def test_a_shared_gpu_has_room_for_eight_runs_if_there_are_cores(gpus, cores, threads, places, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    assert places_here(threads, "cuda", shared=True) == places
    assert places_here(threads, "cuda", shared=False) == gpus


# The benchmark


def measured(place: Path, patch: pytest.MonkeyPatch) -> tuple[list[dict[str, Any]], int]:
    """Two fits of one step on the CPU: the rows that are written, and the exit code."""
    words = ["--device", "cpu", "--fits", "2", "--steps", "1", "--json", str(place / "beside.json")]
    patch.setattr(sys, "argv", ["beside", *words])
    with pytest.raises(SystemExit) as end:
        beside.main()
    return json.loads((place / "beside.json").read_text())["rows"], int(end.value.code or 0)


def test_fits_beside_each_other_are_timed_and_end_at_the_bits_of_one_alone(service, tmp_path, monkeypatch, capsys):
    rows, code = measured(tmp_path, monkeypatch)
    assert [row["fits"] for row in rows] == [1, 2, 2, 2, 4]
    assert all(row["steps_per_s"] > 0 and row["cores"] > 0 for row in rows)
    (fingerprint,) = {one for row in rows for one in row["fingerprints"]}
    assert len(fingerprint) == 64
    assert capsys.readouterr().out.count(" equal ") == 5
    assert code == 0
    started_and_stopped_once(service)


def test_a_fit_with_other_bits_is_named_and_changes_the_exit_code(tmp_path, monkeypatch, capsys):
    def told(what: str, fits: int, *_: object) -> beside.Row:
        return beside.Row(what, fits, 1.0, 1.0, ("same", "other")[:fits])

    monkeypatch.setattr(beside, "beside", told)
    monkeypatch.setenv("PATH", str(tmp_path))
    rows, code = measured(tmp_path, monkeypatch)
    assert [row["what"] for row in rows] == ["alone", "plain processes"]
    printed = capsys.readouterr().out
    assert printed.count("not equal") == 1
    assert f"there is no {PROGRAM} here" in printed
    assert code == 1


class FakeDriver:
    """A driver of two GPUs, which notes how threads are to wait."""

    def __init__(self) -> None:
        self.flags: dict[int, int] = {}

    def cuInit(self, _: int) -> int:
        return 0

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = 2
        return 0

    def cuDeviceGet(self, device: Any, number: int) -> int:
        device._obj.value = number
        return 0

    def cuDevicePrimaryCtxSetFlags_v2(self, device: ctypes.c_int, flags: int) -> int:
        self.flags[device.value] = flags
        return 0


def test_a_process_that_waits_asleep_does_so_on_every_gpu(monkeypatch):
    driver = FakeDriver()
    monkeypatch.setattr(ctypes, "CDLL", lambda _: driver)
    wait_asleep()
    assert driver.flags == {0: BLOCK, 1: BLOCK}


def test_the_runs_of_a_sweep_share_the_cores(monkeypatch):
    monkeypatch.setenv(CORES, "16")
    for places, share in ((1, "16"), (4, "4"), (22, "1")):
        with LocalEngine(places, ()) as engine:
            assert engine.environment[CORES] == share
