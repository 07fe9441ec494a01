"""A sweep carries out each run of a grid once, whatever happens on the way, and what comes out is what `run` gives."""

import fcntl
import importlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.agent.progress import Screen
from holdfast.cli.main import main
from holdfast.cli.run import parse_run
from holdfast.errors import Busy, Mistake
from holdfast.runs.folder import RunFolder
from holdfast.runs.run import run
from holdfast.runs.spec import RunSpec
from holdfast.study import local as locals_
from holdfast.study import ray_cluster as clusters
from holdfast.study import running
from holdfast.study import sweep as sweeps
from holdfast.study.grid import Grid, read_grid
from holdfast.study.jobs import Job, address, expand
from holdfast.study.sweep import Outcome, Sweep, is_complete
from tests.test_mistakes import command as mistake
from tests.tiny import PATIENCE, QUIET, contents, tiny_learner, tiny_suite

ROOT = Path(__file__).parent.parent
GRIDS = sorted((ROOT / "grids").glob("*.toml"))
QUICK = """
[all]
suite = "toy"
budget = "smoke"
tensorboard = false
fit.log_every = 5
order = [["NorthEast", "SouthWest"]]
"""


BROKEN = '[[b]]\nlearner="naive"\nfit.learning_rate=1e30\n'


def grid(folder: Path, text: str, name: str = "demo") -> Grid:
    path = folder / f"{name}.toml"
    path.write_text(text)
    return read_grid(path, folder / "runs")


def jobs_of(found: Grid, *parts: str, cache: bool = True) -> list[Job]:
    return expand(found, parts, "cpu", cache)


@cache
def all_jobs(path: Path) -> list[Job]:
    return expand(read_grid(path), (), "cpu", True)


def reread(words: tuple[str, ...]) -> RunSpec:
    return parse_run(words[1:]).spec


# Grids


def test_a_grid_is_the_product_of_its_lists_part_by_part(tmp_path):
    found = grid(
        tmp_path,
        """
        [all]
        suite = "toy"
        [[main]]
        learner = ["naive", "tsn-core"]
        seed = [0, 1, 2]
        [[thresholds]]
        learner = "affinity-l"
        routing.threshold = [1.0, 2.0]
        [[thresholds]]
        learner = "affinity-a"
        order = [["NorthEast", "SouthWest"], ["SouthWest"]]
        """,
    )
    plans = [(job.spec.plan.learner, job.spec.plan.seed) for job in jobs_of(found)]
    assert plans[:6] == [("naive", 0), ("naive", 1), ("naive", 2), ("tsn-core", 0), ("tsn-core", 1), ("tsn-core", 2)]
    assert [job.spec.plan.config.routing.threshold for job in jobs_of(found, "thresholds")[:2]] == [1.0, 2.0]
    orders = [job.spec.plan.order for job in jobs_of(found, "thresholds")[2:]]
    assert orders == [("NorthEast", "SouthWest"), ("SouthWest",)]


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
def test_every_grid_stands_for_runs_whose_commands_say_exactly_them(path):
    jobs = all_jobs(path)
    assert len({job.name for job in jobs}) == len(jobs) > 0
    for job in jobs[:: max(len(jobs) // 5, 1)]:
        assert reread(job.words) == job.spec
        assert job.spec.plan.threads == 1


@pytest.mark.parametrize("suite", ["panda3", "atari5"])
def test_every_published_row_has_its_run(suite):
    rows = json.loads((Path(holdfast.__file__).parent / "study" / "published.json").read_text())[suite]
    methods = [row["method"] if isinstance(row, dict) else row[0] for row in [*rows["main"], *rows["aux_runs"]]]
    methods += [row["method"] for row in rows.get("thresholds", [])]
    plans = [job.spec.plan for job in all_jobs(ROOT / "grids" / f"{suite}.toml")]
    for method in methods:
        name, *settings = method.split()
        wanted = {word.split("=")[0]: float(word.split("=")[1]) for word in settings if "=" in word}
        of_name = [plan for plan in plans if plan.learner == name]
        routing = [getattr(plan.config, "routing", None) for plan in of_name]
        fitting = [
            one
            for one in routing
            if wanted.get("tau") in (None, getattr(one, "threshold", None))
            and wanted.get("alpha") in (None, getattr(one, "alpha", None))
        ]
        assert fitting, method
    assert {"single", "naive", "ewc"} <= {plan.learner for plan in plans}


def test_a_run_that_two_parts_ask_for_is_there_once_however_it_is_said(tmp_path):
    both = grid(
        tmp_path, '[[a]]\nlearner="affinity-l"\n[[b]]\nlearner="affinity-l"\nrouting.threshold="auto"\nseed=0\n'
    )
    assert len(jobs_of(both)) == 1


def test_a_run_that_another_grid_named_otherwise_is_found(tmp_path):
    one = jobs_of(grid(tmp_path, '[[a]]\nlearner="affinity-l"\n'))[0]
    one.path.mkdir(parents=True)
    other = jobs_of(grid(tmp_path, '[[b]]\nlearner="affinity-l"\nrouting.threshold="auto"\n', "other"))[0]
    assert other.path == one.path


@pytest.mark.parametrize(
    "setting",
    [
        "seed = 1",
        "fit.steps = 7",
        "fit.packed = false",
        "routing.threshold = 3",
        'order = [["NorthEast"]]',
        'budget = "smoke"',
        'device = "cuda"',
        "threads = 2",
        "transitions = 500",
        "protocol.episodes = 3",
        "full_matrix = true",
    ],
)
def test_another_setting_has_another_folder(setting, tmp_path):
    plain, other = (jobs_of(grid(tmp_path, f'[[a]]\nlearner="affinity-l"\n{more}'))[0] for more in ("", setting))
    assert plain.name != other.name
    assert address(plain.spec) != address(other.spec)


@pytest.mark.parametrize("setting", ['evaluate = "none"', "save_every = 1.0", "tensorboard = false"])
def test_how_a_run_is_carried_out_does_not_name_its_folder(setting, tmp_path):
    plain, other = (jobs_of(grid(tmp_path, f'[[a]]\nlearner="affinity-l"\n{more}'))[0] for more in ("", setting))
    assert address(plain.spec) == address(other.spec)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[a]]\nlearner="affinity-l"\nrouting.treshold=1', "did you mean routing.threshold"),
        ('[[a]]\nlearner="naive"\nrouting.threshold=1', "the learner naive has no setting 'routing.threshold'"),
        (
            '[[a]]\nlearner="affinity-l"\nrouting.threshold="far"',
            "threshold must be a finite number or auto, got 'far'",
        ),
        ('[[a]]\nlearner="nave"', "there is no learner 'nave'"),
        ('[[a]]\nsuite="tox"', "tox"),
        ('[[a]]\nbudget="long"', "there is no budget 'long'"),
        ('[[a]]\norder=[["North"]]', "no task 'North'"),
        ('[[a]]\nsuite="atari5"\nprotocol.name="random"', "no protocol 'random'"),
        ("[[a]]\nfit.steps=0", "fit.steps"),
        ('[[a]]\nout="x"', "no setting 'out'"),
        ("[[a]]\nseed=[]", "seed = [] gives no runs"),
        ('[[a]]\ndevice="tpu"', "there is no device 'tpu'"),
        ('[[a]]\nsingle="nowhere"', "nowhere is not a run folder"),
        ('[[a]]\norder=["NorthEast", "SouthWest"]', 'write a list of lists, as in order = [["NorthEast"]]'),
        ("[[a]]\norder=[[]]", "has no task"),
        ('[[a]]\nlearner=[["naive"]]', "learner must be a name, not ['naive']"),
        ("out=3\n[[b]]\nseed=1", "out must be the name of a folder, not 3"),
        ("[[all]]\nseed=1\n[[b]]\nseed=1", "write [all]"),
        ('all="x"\n[[b]]\nseed=1', "write [all]"),
        ("[all]\nseed=[]\n[[b]]\nfit.steps=1", "seed = [] gives no runs"),
        ("[a]\nseed=1", "must be a part of the grid: write [[a]]"),
        ("[all]\nseed=1", "has no runs"),
        ("[[a]\n", "is not TOML"),
    ],
)
def test_a_mistake_in_a_grid_is_one_sentence_before_anything_runs(text, said, tmp_path, capsys):
    path = tmp_path / "bad.toml"
    path.write_text(f'[[fine]]\nlearner="naive"\n{text}' if text.startswith("[[a]]") else text)
    assert said in mistake(capsys, "sweep", str(path), "--out", str(tmp_path / "runs"), "--dry")
    assert said in mistake(capsys, "sweep", str(path), "--out", str(tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()


def test_other_mistakes_are_one_sentence_too(tmp_path, capsys):
    assert "there is no grid" in mistake(capsys, "sweep", str(tmp_path / "none.toml"))
    assert "cannot be read (Is a directory)" in mistake(capsys, "sweep", str(tmp_path))
    grid(tmp_path, '[[a]]\nlearner="naive"\n')
    path = str(tmp_path / "demo.toml")
    assert "cannot be written" in mistake(capsys, "sweep", path, "--out", path)
    assert "no device 'tpu'" in mistake(capsys, "sweep", path, "--on", "ray", "--device", "tpu", "--dry")
    assert "has no part 'b'; it has a" in mistake(capsys, "sweep", path, "--part", "b")
    assert "at least 1" in mistake(capsys, "sweep", path, "--at-once", "0")


def test_a_reference_run_that_is_there_and_knows_the_tasks_is_allowed(tmp_path):
    plain = f'{QUICK}[[a]]\nlearner="single"\nfit.steps=5\n'
    (single,) = jobs_of(grid(tmp_path, plain))
    main(list(single.words))
    (job,) = jobs_of(grid(tmp_path, f"{QUICK}[[a]]\nlearner='naive'\nsingle='{single.path}'\n"))
    assert job.spec.options.reference == single.path
    with pytest.raises(Mistake, match="no result for NorthWest"):
        jobs_of(grid(tmp_path, f"[[a]]\nlearner='naive'\nsingle='{single.path}'\norder=[['NorthWest']]\n"))


def test_dry_prints_the_command_lines_and_runs_nothing(tmp_path, capsys):
    found = grid(tmp_path, '[[a]]\nlearner=["naive", "ewc"]\nfit.packed=false\n')
    main(["sweep", str(found.path), "--out", str(found.out), "--dry"])
    lines = capsys.readouterr().out.splitlines()
    assert [shlex.split(line)[1:] for line in lines] == [list(job.words) for job in jobs_of(found)]
    assert "--fit.no-packed" in lines[0]
    assert not found.out.exists()


# On this machine


def sweep(found: Grid, engine: running.Engine, **more: Any) -> list[Outcome]:
    with Screen() as screen, engine:
        return Sweep(jobs_of(found, **more), engine, found.out / "logs", screen).carry_out()


def alone(job: Job, path: Path) -> Path:
    """The same run by itself, without a cache."""
    words = list(job.words[1:])
    del words[words.index("--cache") : words.index("--cache") + 2]
    words[words.index("--out") + 1] = str(path)
    main(["run", *words])
    return path


# Every Python process that a sweep starts imports this first. In `begun` the runs say that they are under way, with
# `wanted` of which they go on; the first that is some way on writes its name to `killed` and ends a process.
KILLER = """
import os, pathlib, signal, sys, time

begun, killed = pathlib.Path({place!r}, "begun"), pathlib.Path({place!r}, "killed")
fsync, flushes = os.fsync, 0

def counted(file):
    global flushes
    flushes += 1
    if flushes == 1:
        (begun / str(os.getpid())).touch()
    while len(list(begun.iterdir())) < {wanted}:
        time.sleep(0.01)
    if flushes == 20 and not killed.exists():
        try:
            with killed.open("x") as first:
                first.write(sys.orig_argv[-1])
        except FileExistsError:
            pass
        else:
            os.kill(os.{victim}(), signal.SIGKILL)
    fsync(file)

if "holdfast.cli.sweep_process" in sys.orig_argv:
    os.fsync = counted
"""


@contextmanager
def killer(place: Path, wanted: int, victim: str) -> Iterator[Path]:
    """While it lasts, one run of the sweeps that begin is killed, itself or the process that started it; which one."""
    (place / "begun").mkdir(parents=True)
    (place / "sitecustomize.py").write_text(KILLER.format(place=str(place), wanted=wanted, victim=victim))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(place), prepend=os.pathsep)
        yield place / "killed"


def test_a_sweep_gives_what_its_commands_give_whatever_is_killed_or_fails_and_again_runs_nothing(tmp_path, capsys):
    text = f'{QUICK}[[a]]\nlearner="affinity-l"\nrouting.threshold=[1.0, 1e9]\nsave_every=0.0\n{BROKEN}'
    found = grid(tmp_path, text)
    words = ["sweep", str(found.path), "--out", str(found.out), "--at-once", "2"]
    with killer(tmp_path / "killer", wanted=1, victim="getpid") as killed, pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 1
    near, far, broken = jobs_of(found)
    printed = " ".join(capsys.readouterr().out.split())
    assert "2 of 3 runs are in" in printed
    assert "the loss is" in printed
    log = (found.out / "logs" / f"{broken.name}.log").read_text()
    assert log.count("holdfast: the loss is") == 1  # it would say so again
    for job in (near, far):
        assert is_complete(job)
        assert json.loads((job.path / "config.json").read_text())["command"] == shlex.join(["holdfast", *job.words])
        assert contents(alone(job, tmp_path / job.name)) == contents(job.path)
    logs = {job.name: (job.path / "events.jsonl").read_text() for job in (near, far)}
    assert '"resume"' in logs[killed.read_text()]
    assert sum(log.count('"recall"') for log in logs.values()) == 1  # the first task, by the one that came later
    capsys.readouterr()
    main([*words, "--part", "a"])
    assert capsys.readouterr().out.count("was there") == 2
    assert logs == {job.name: (job.path / "events.jsonl").read_text() for job in (near, far)}


class Scripted(running.Engine, running.RunningJob):
    """Runs that end as they are told to, in turn; at the last end their folders are complete, if that is wanted."""

    places = 1

    def __init__(self, *hows: str, completes: Job | None = None) -> None:
        self.hows, self.completes, self.started = list(hows), completes, 0

    def start(self, job: Job, log: Path) -> running.RunningJob:
        self.started += 1
        return self

    def poll(self) -> running.End:
        how = self.hows.pop(0)
        if self.completes and not self.hows:
            main(list(self.completes.words))
        return running.End(how, f"a {how}")  # type: ignore[arg-type]

    def interrupt(self) -> None:
        pass

    def stop(self, patience: float = 0.0) -> None:
        pass


ENDS = [
    (("failure", "failure"), False, "failed", 2),
    (("failure", "success"), True, "done", 2),
    (("success", "success"), False, "failed", 2),  # nothing is there
    (("busy", "busy", "busy", "success"), True, "done", 4),  # waited for, not counted
    (("failure", "busy", "failure"), False, "failed", 3),
    (("mistake",), False, "failed", 1),
    (("defect",), False, "failed", 1),
    (("failure", "mistake"), False, "failed", 2),
    (("mistake",), True, "there", 1),
    (("busy",), True, "there", 1),  # the other process made it
    (("failure", "failure"), True, "there", 2),
]


@pytest.mark.parametrize(("hows", "completes", "state", "started"), ENDS)
def test_a_run_is_tried_as_often_as_its_ends_are_worth(hows, completes, state, started, tmp_path, monkeypatch):
    monkeypatch.setattr(sweeps, "PATIENCE", 0.0)
    found = grid(tmp_path, f'{QUICK}[[a]]\nlearner="naive"\nfit.steps=5\n')
    (job,) = jobs_of(found)
    engine = Scripted(*hows, completes=job if completes else None)
    (result,) = sweep(found, engine)
    assert (result.state, engine.started, engine.hows) == (state, started, [])
    assert bool(result.reason) == (state == "failed")


def test_two_sweeps_at_once_both_say_that_all_runs_are_there(tmp_path):
    found = grid(tmp_path, f'{QUICK}[[a]]\nlearner="naive"\nseed=[0, 1]\nfit.steps=100\n')
    words = [sys.executable, "-m", "holdfast", "sweep", str(found.path), "--out", str(found.out), "--at-once", "1"]
    environment = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).parents[1])}
    both = [subprocess.Popen(words, env=environment, stdout=subprocess.PIPE) for _ in range(2)]
    for process in both:
        said = process.communicate()[0].decode()
        assert process.returncode == 0, said
        assert "2 of 2 runs are in" in " ".join(said.split())
    assert all(is_complete(job) for job in jobs_of(found))


def test_a_folder_that_another_process_begins_is_busy_and_what_it_did_there_is_seen(tmp_path):
    found = tiny_suite(tasks=1)
    learner = tiny_learner("naive", found)
    (tmp_path / "run").mkdir()
    lock = os.open(tmp_path / "run", os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with pytest.raises(Busy, match="another process is working in"):
        RunFolder(tmp_path / "run", learner.plan)
    os.close(lock)
    early = RunFolder(tmp_path / "run", learner.plan)
    run(found, learner, tmp_path / "run", QUIET)
    with early:
        assert early.learned == 1


def test_each_gpu_has_as_many_runs_as_the_others(tmp_path, monkeypatch):
    given: list[str] = []

    class Stub:
        ended = False

        def __init__(self, launch: running.Launch, log: Path, more: dict[str, str]) -> None:
            given.append(more.get("CUDA_VISIBLE_DEVICES", "all"))

    monkeypatch.setattr(locals_, "RunProcess", Stub)
    (job,) = jobs_of(grid(tmp_path, '[[a]]\nlearner="naive"\n'))
    engine = locals_.LocalEngine(4, ["5", "GPU-1f"])
    first, second = engine.start(job, tmp_path), engine.start(job, tmp_path)
    second.ended = True  # type: ignore[attr-defined]
    engine.start(job, tmp_path)
    first.ended = True  # type: ignore[attr-defined]
    engine.start(job, tmp_path)
    assert given == ["5", "GPU-1f", "GPU-1f", "5"]


LONG = f'{QUICK}[[a]]\nlearner="naive"\nfit.steps=120\nsave_every=0.0\n'


def under_way(found: Grid, job: Job) -> subprocess.Popen:
    """The sweep as a process, once its run trains."""
    lines = (job.path / "events.jsonl").read_bytes().count(b"\n") if (job.path / "events.jsonl").exists() else 0
    source = str(Path(holdfast.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "sweep", str(found.path), "--out", str(found.out)],
        env={**os.environ, "PYTHONPATH": source},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    while not (job.path / "events.jsonl").exists() or (job.path / "events.jsonl").read_bytes().count(b"\n") < lines + 4:
        assert process.poll() is None
        time.sleep(0.05)
    return process


def free(path: Path) -> bool:
    """Whether the process that worked in a run folder ends its work there."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        lock = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(0.05)
        finally:
            os.close(lock)
    return False


def test_a_sweep_that_is_killed_or_interrupted_takes_its_runs_with_it_and_goes_on_later(tmp_path):
    found = grid(tmp_path, LONG.replace("120", "1_000_000"))  # never done, however fast the machine is
    (job,) = jobs_of(found)
    with under_way(found, job) as process:
        process.kill()
    assert free(job.path)
    with under_way(found, job) as process:
        process.send_signal(signal.SIGINT)
        said = process.stderr.read().decode() if process.stderr else ""
        assert process.wait() == 130
    assert said.splitlines()[-1] == "holdfast: interrupted; the same command resumes from here"
    assert free(job.path)
    assert not is_complete(job)
    assert (job.path / "state").exists()
    assert (
        "interrupted at step" in (found.out / "logs" / f"{job.name}.log").read_text()
    )  # it saved what it was training


# On Ray


def test_without_ray_a_sentence_says_what_to_install(tmp_path, monkeypatch, capsys):
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(clusters, "import_module", missing)
    found = grid(tmp_path, '[[a]]\nlearner="naive"\n')
    assert "pip install 'holdfast[ray]'" in mistake(capsys, "sweep", str(found.path), "--on", "ray")


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory) -> Iterator[tuple[str, Path]]:
    """A cluster of two nodes with one processor each, and the name of the run whose worker was killed there."""
    pytest.importorskip("ray")
    utils = importlib.import_module("ray.cluster_utils")
    place = tempfile.mkdtemp(prefix="r", dir="/tmp")  # short: paths of sockets must be
    aside = tmp_path_factory.mktemp("killer")
    with pytest.MonkeyPatch.context() as patch, killer(aside, wanted=2, victim="getppid") as killed:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_TMPDIR", place)
        (Path(place) / "ray").mkdir()  # where Ray notes its address, which a machine that never ran it has not
        head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80 * 2**20}
        cluster = utils.Cluster(initialize_head=True, head_node_args=head)
        cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
        yield cluster.address, killed
        cluster.shutdown()
    shutil.rmtree(place, ignore_errors=True)


def on_ray(found: Grid, nodes: tuple[str, Path]) -> running.Engine:
    return clusters.RayEngine(found.out, nodes[0], cpus=1.0, gpus=0.0, places=8)


def test_on_two_nodes_a_killed_worker_is_replaced_and_the_result_is_that_of_an_uninterrupted_run(
    two_nodes, tmp_path, monkeypatch
):
    poll, workers = clusters.Remote.poll, set()

    def poll_worker(self: clusters.Remote) -> running.RunProgress | running.End:
        seen = poll(self)
        if self.began:
            workers.add(self.began.worker)
            assert self.began.shared
        return seen

    monkeypatch.setattr(clusters.Remote, "poll", poll_worker)
    found = grid(tmp_path, LONG.replace("[[a]]", "[[a]]\nseed=[0, 1]"))
    results = sweep(found, on_ray(found, two_nodes))
    assert [result.state for result in results] == ["done", "done"]
    assert len(workers) >= 2  # two at once; the one in place of the killed may be new, or the other one's
    (job,) = [result.job for result in results if result.job.name == two_nodes[1].read_text()]
    assert '"resume"' in (job.path / "events.jsonl").read_text()
    assert contents(alone(job, tmp_path / "alone")) == contents(job.path)
    assert json.loads((job.path / "config.json").read_text())["command"] == shlex.join(["holdfast", *job.words])


def test_a_worker_that_does_not_see_the_folder_sends_its_own(two_nodes, tmp_path, monkeypatch):
    monkeypatch.setattr(clusters, "MARK", ".elsewhere")  # here, not in the workers
    monkeypatch.setattr(clusters, "PIECE", 2**12)
    found = grid(tmp_path, f'{QUICK}[[a]]\nlearner="naive"\n')
    (fine,) = sweep(found, on_ray(found, two_nodes))
    assert fine.state == "done", fine.reason
    assert "certificate:" in fine.log.read_text()
    assert contents(alone(fine.job, tmp_path / "alone")) == contents(fine.job.path)
    said = json.loads((fine.job.path / "config.json").read_text())["command"]
    assert said == shlex.join(["holdfast", *fine.job.words])
    assert not (found.out / "cache").exists()
    assert [path.name for path in clusters.scratch(str(found.out)).glob("naive*")] == []
    shutil.rmtree(clusters.scratch(str(found.out)))
