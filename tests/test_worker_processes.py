"""Processes of simulators: they never run the user's script, end with who started them, and say why they died."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import holdfast
from holdfast.benchmarks.toy.field import DiscreteMoves, Field, Rules
from holdfast.errors import Mistake
from holdfast.tasks.environments import InTurn
from holdfast.tasks.processes import CORES, processes, usable_cores
from holdfast.tasks.workers import IDLE, Workers, end_idle, kept_processes

RULES = Rules((0.5, 0.5), DiscreteMoves(holdfast.Discrete(5, 9)), rail=False, ends=False)

SCRIPT = """
import os
import gymnasium, numpy
import holdfast
from holdfast.tasks.processes import processes
from holdfast.tasks.workers import Workers

print("the script runs", flush=True)

class Mine(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), numpy.float32)
    action_space = gymnasium.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        return numpy.full(2, seed / 10, numpy.float32), {}
    def step(self, action):
        return numpy.zeros(2, numpy.float32), float(action), True, False, {}

workers = Workers(Mine, 3, processes=2)
print(workers.reset([1, 2, 3]).tolist())
print(workers.step(numpy.array([0, 1, 0])).rewards.tolist())
workers.close()
with processes(1) as pool:
    print(pool.submit(os.path.basename, "a/b").result())
"""


def python(script: Path, *words: str) -> subprocess.CompletedProcess:
    source = str(Path(holdfast.__file__).parents[1])
    return subprocess.run(
        [sys.executable, script, *words],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_plain_script_is_run_once_and_its_own_simulator_too(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = python(tmp_path / "script.py")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    answers = [[[np.float32(n / 10).item()] * 2 for n in (1, 2, 3)], [0.0, 1.0, 0.0]]
    assert done.stdout.splitlines() == ["the script runs", *map(str, answers), "b"]


def test_processes_and_turns_give_the_same_steps():
    def play(environments):
        rng = np.random.default_rng(0)
        story = [environments.reset([3, 1, 4])]
        for _ in range(4):
            story += vars(environments.step(rng.integers(0, 5, 3))).values()
        environments.close()
        return story

    def make():
        return Field(RULES)

    turns, workers = play(InTurn(make, 3)), play(Workers(make, 3, processes=2))
    assert all(np.array_equal(a, b) for a, b in zip(turns, workers, strict=True))


class Faulty(Field):
    """A simulator that fails in a way of its own at its first step."""

    def __init__(self, fail):
        super().__init__(RULES)
        self.fail = fail

    def step(self, action):
        self.fail()


class Own(Exception):
    """An exception that cannot be made again from its arguments."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def leave():
    os.write(2, b"the licence has expired\n\n")
    os._exit(3)


def crash():
    os.kill(os.getpid(), signal.SIGSEGV)


def say():
    raise ValueError("joint 7 is out of reach")


def say_own():
    raise Own("left", "right")


def say_what_cannot_be_sent():
    raise ValueError(lambda: None)


@pytest.mark.parametrize(
    ("fail", "kind", "said"),
    [
        (leave, Mistake, r"a simulator's process died \(exit code 3\): the licence has expired"),
        (crash, Mistake, r"a simulator's process died \(killed by SIGSEGV\): "),
        (sys.exit, Mistake, r"a simulator's process died \(exit code 0\)"),
        (say, ValueError, "joint 7 is out of reach"),
        (say_own, RuntimeError, "Own: left and right"),
        (say_what_cannot_be_sent, RuntimeError, "ValueError: <function"),
    ],
)
def test_a_process_that_fails_says_why(fail, kind, said, capfd):
    workers = Workers(lambda: Faulty(fail), 2, processes=2)
    workers.reset([0, 1])
    with pytest.raises(kind, match=said):
        workers.step(np.zeros(2, int))
    workers.close()
    assert "Traceback" not in capfd.readouterr().err


def test_a_process_that_died_between_two_steps_is_said_so():
    workers = Workers(lambda: Field(RULES), 1)
    workers.reset([0])
    workers.workers[0].process.kill()
    workers.workers[0].process.join()
    with pytest.raises(Mistake, match="killed by SIGKILL"):
        workers.step(np.zeros(1, int))
    workers.close()


def test_what_a_simulator_prints_as_an_error_is_passed_on_at_its_end(capsys):
    def make():
        os.write(2, b"the camera is slow\n")
        return Field(RULES)

    workers = Workers(make, 1)
    workers.reset([0])
    workers.close()
    assert capsys.readouterr().err == "the camera is slow\n"


def test_a_process_of_a_pool_that_dies_is_one_sentence():
    with pytest.raises(Mistake, match=r"a worker process died \(exit code 5\)"), processes(2) as pool:
        pool.submit(os._exit, 5).result()


ALIVE = """
import os, sys, numpy
from holdfast.benchmarks.toy.field import DiscreteMoves, Field, Rules
from holdfast.tasks.workers import Workers
from holdfast import Discrete
moves = DiscreteMoves(Discrete(5, 9))
workers = Workers(lambda: Field(Rules((0.5, 0.5), moves, rail=False, ends=False)), 2, processes=2)
workers.reset([0, 1])
print(*(worker.process.pid for worker in workers.workers), flush=True)
sys.stdin.read()
"""


def test_workers_end_with_a_script_that_is_killed(tmp_path):
    (tmp_path / "script.py").write_text(ALIVE)
    source = str(Path(holdfast.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, tmp_path / "script.py"],
        env={**os.environ, "PYTHONPATH": source},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        workers = [int(word) for word in process.stdout.readline().split()]
        assert len(workers) == 2
        process.kill()
    for worker in workers:
        while Path(f"/proc/{worker}").exists():  # the test's own limit of time ends it otherwise
            time.sleep(0.05)


def test_a_process_is_used_again_with_fresh_environments_and_prints_once(capsys):
    def make():
        os.write(2, b"made\n")
        return Field(RULES)

    end_idle()
    identities, starts = [], []
    for _ in range(2):
        workers = Workers(make, 1)
        identities.append(workers.workers[0].process.pid)
        starts.append(workers.reset([3]))
        workers.close()
        assert capsys.readouterr().err == "made\n"
    assert identities[0] == identities[1]
    assert (starts[0] == starts[1]).all()


def test_a_process_that_still_owes_an_answer_is_not_used_again():
    end_idle()
    workers = Workers(lambda: Field(RULES), 1)
    workers.reset([0])
    workers.begin(np.zeros(1, int))
    workers.close()
    assert not IDLE
    assert workers.workers[0].process.exitcode == 0


def test_a_process_that_was_given_a_share_of_the_cores_starts_so_many_simulators(monkeypatch):
    monkeypatch.setenv(CORES, "3")
    assert usable_cores() == 3
    workers = Workers(lambda: Field(RULES), 8)
    assert len(workers.workers) == 3
    workers.close()
    for nonsense in ("0", "-1", "many"):
        monkeypatch.setenv(CORES, nonsense)
        with pytest.raises(Mistake, match="HOLDFAST_CORES must be a number of cores"):
            usable_cores()


def test_only_so_many_idle_processes_are_kept():
    end_idle()
    several = [Workers(lambda: Field(RULES), 2, 2) for _ in range(kept_processes() // 2 + 1)]
    for workers in several:
        workers.reset([0, 1])
    for workers in several:
        workers.close()
    assert len(IDLE) == kept_processes()
    end_idle()
    assert not IDLE
