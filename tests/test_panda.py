"""Panda-3: an episode is its seed and actions, data is what the simulator says, processes change nothing."""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from types import SimpleNamespace

import cloudpickle
import h5py
import numpy as np
import pytest

from holdfast.benchmarks.panda.arm import ARMS, load_dataset, make_environment, make_shared, plain, shared, to_dataset
from holdfast.benchmarks.panda.check_datasets import check_arm
from holdfast.benchmarks.panda.random_returns import RANDOM_RETURNS, measure
from holdfast.benchmarks.panda.recording import build_datasets, keep, record_demonstrations
from holdfast.cli.main import main
from holdfast.data import minari as store
from holdfast.data.demonstrations import Demonstrations
from holdfast.errors import MissingData, Mistake
from holdfast.runs.run import reopen, run
from holdfast.tasks.data_reports import silent
from holdfast.tasks.environments import InTurn
from holdfast.tasks.processes import forkserver, processes
from holdfast.tasks.replays import replay_episodes
from holdfast.tasks.suite import suite
from holdfast.tasks.workers import Workers, _serve
from tests.tiny import PATIENCE, QUIET, contents, tiny_learner

pytestmark = pytest.mark.usefixtures("own_datasets")
PUSH = ARMS["PandaPush"]
SIZE = 300


@pytest.fixture(scope="module")
def push() -> Demonstrations:
    build_datasets([PUSH], SIZE, silent)
    return store.read(PUSH.dataset(SIZE))


def rollout(env, seed):
    rng = np.random.default_rng(seed)
    observation, _ = env.reset(seed=seed)
    story, over = [observation], False
    while not over:
        drift = np.array([0.0, 0.0, -0.3, 0.0][: env.action_space.shape[0]])  # down to the cube, to touch it
        observation, reward, terminated, truncated, _ = env.step(rng.uniform(-1, 1, drift.shape) + drift)
        story += [observation, reward]
        over = terminated or truncated
    return np.concatenate([np.atleast_1d(part) for part in story])


@pytest.mark.parametrize("task", ARMS)
def test_an_episode_is_a_function_of_its_seed_and_actions_whatever_was_played_before(task):
    one, other = make_shared(ARMS[task].environment), make_shared(ARMS[task].environment)
    forth = {seed: rollout(one, seed) for seed in range(6)}
    back = {seed: rollout(other, seed) for seed in reversed(range(6))}
    assert all(np.array_equal(forth[seed], back[seed]) for seed in range(6))
    one.close()
    other.close()


@pytest.mark.parametrize(("task", "features"), [("PandaReach", 13), ("PandaPush", 25), ("PandaPickAndPlace", 26)])
def test_all_tasks_share_one_interface(task, features):
    env = make_shared(ARMS[task].environment)
    first, _ = env.reset(seed=0)
    second = env.step(np.zeros(ARMS[task].actions, np.float32))[0]
    assert first.shape == second.shape == (26,)
    assert not first[features:].any()
    time = features - 7  # before achieved and desired goal
    assert (first[time], second[time]) == (1.0, np.float32(1 - 1 / 50))
    goal = env.unwrapped.task.get_goal()
    assert np.allclose(first[features - 3 : features], goal)
    env.close()


def test_the_layout_by_hand():
    parts = {
        "observation": np.full((2, 6), 1.0),
        "achieved_goal": np.full((2, 3), 2.0),
        "desired_goal": np.full((2, 3), 3.0),
    }
    flat = shared(parts, np.array([0, 25]))
    assert flat[1].tolist() == [1.0] * 6 + [0.5] + [2.0] * 3 + [3.0] * 3 + [0.0] * 13


def test_a_recording_does_not_depend_on_the_number_of_processes(push):
    with processes(1) as pool:
        alone = record_demonstrations(PUSH, SIZE, silent, pool)
    for name in ("actions", "rewards", "lengths", "seeds"):
        assert np.array_equal(getattr(alone, name), getattr(push, name))


def test_less_data_is_the_beginning_of_more(push):
    with processes(1) as pool:
        less = record_demonstrations(PUSH, 100, silent, pool)
    first = push.first(100)
    assert np.array_equal(less.actions, first.actions)
    assert first.lengths.sum() >= 100 > first.lengths[:-1].sum()
    with pytest.raises(Mistake, match="transitions, fewer than"):
        push.first(10_000)


def test_plain_minari_opens_the_dataset(push):
    import minari

    dataset = minari.load_dataset(PUSH.dataset(SIZE))
    assert dataset.total_steps == push.lengths.sum()
    assert dataset.env_spec.id == PUSH.environment
    episode = next(iter(dataset.iterate_episodes()))
    assert set(episode.observations) == {"observation", "achieved_goal", "desired_goal"}
    assert len(episode.observations["observation"]) == len(episode.actions) + 1
    assert episode.terminations[-1]
    assert dataset.storage.metadata["ref_max_score"] > dataset.storage.metadata["ref_min_score"]


@pytest.mark.filterwarnings("ignore:.*is set to None:UserWarning")  # authors and links, which Minari would like
def test_the_file_is_what_minari_writes_itself(push, tmp_path, monkeypatch):
    import h5py
    import minari
    from minari.data_collector import EpisodeBuffer

    def buffer(number, episode):
        end = np.arange(len(episode.rewards)) == len(episode.rewards) - 1
        lists = {"rewards": list(episode.rewards), "terminations": list(end), "truncations": [False] * len(end)}
        seen, seed = dict(episode.observations), int(episode.seeds[0])
        return EpisodeBuffer(id=number, seed=seed, observations=seen, actions=episode.actions, infos=None, **lists)

    def contents(path):
        with h5py.File(path) as file:
            found = {"episodes": list(file)}
            file.visititems(lambda name, item: found.update({name: (dict(item.attrs), value(item))}))
        return found

    def value(item):
        return (item.dtype, item.shape, item[()].tobytes()) if isinstance(item, h5py.Dataset) else list(item)

    ours = store.folder(PUSH.dataset(SIZE)) / "data"
    monkeypatch.setenv(store.PLACE, str(tmp_path))
    buffers = [buffer(number, episode) for number, episode in enumerate(push.episodes())]
    environment = plain(PUSH.environment)
    theirs = minari.create_dataset_from_buffers(
        PUSH.dataset(SIZE), buffers, environment, data_format="hdf5", ref_min_score=0.0, ref_max_score=1.0
    ).storage.data_path
    environment.close()
    assert contents(ours / store.HDF5) == contents(theirs / store.HDF5)
    told, telling = (json.loads((place / "metadata.json").read_text()) for place in (ours, theirs))
    assert told.keys() - telling.keys() == {"algorithm_name", "description", "requirements", "holdfast_interface"}
    differing = {"ref_min_score", "ref_max_score", "dataset_size"}
    assert {name: told[name] for name in telling.keys() - differing} == {
        name: telling[name] for name in telling.keys() - differing
    }


def test_a_recording_is_one_file_to_the_bit_whenever_it_is_written(push):
    path = store.folder(PUSH.dataset(SIZE)) / "data" / store.HDF5
    before = path.read_bytes()
    time.sleep(1.1)  # a file that kept its time would tell
    keep(PUSH, SIZE, push)
    assert path.read_bytes() == before


def test_the_cache_holds_what_minari_holds(push):
    slow = store._read_episodes(PUSH.dataset(SIZE))
    for name in ("actions", "rewards", "lengths"):
        assert np.array_equal(getattr(slow, name), getattr(push, name))
    assert all(np.array_equal(slow.observations[name], push.observations[name]) for name in push.observations)
    cache = store.folder(PUSH.dataset(SIZE)) / "data" / store.CACHE
    cache.unlink()
    assert np.array_equal(store.read(PUSH.dataset(SIZE)).actions, push.actions)
    assert cache.exists()


def test_recorded_episodes_become_windows_of_the_shared_interface(push):
    dataset = to_dataset(push)
    assert dataset.observations.shape == (push.lengths.sum(), 26)
    assert dataset.actions.shape[1] == 4
    assert not dataset.actions[:, 3].any()
    starts = dataset.observations[dataset.starts, 18]
    assert (starts == 1.0).all()  # the time feature where every episode begins


def test_a_check_replays_and_a_changed_reward_is_found(push):
    found = check_arm(PUSH, SIZE, replays=8)
    assert found.replayed == 8
    assert found.differing == ()
    assert found.duplicates == 0
    rewards = push.rewards.copy()
    rewards[push.lengths[0]] += 1e-9
    changed = Demonstrations(push.observations, push.actions, rewards, push.lengths, push.seeds)
    environment = make_environment(PUSH.environment)
    (said,) = replay_episodes(PUSH.task, environment, changed, np.arange(3))
    environment.close()
    assert said.startswith("PandaPush episode 1 step 0")


def killed_at(step, size, recorded):
    def die(*words):
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(store, step, die)
    keep(PUSH, size, recorded)


@pytest.mark.parametrize("step", ["write_episodes", "_write_cache"])
def test_a_build_killed_while_it_writes_leaves_the_dataset_as_it_was(push, step):
    for size, there in ((299, False), (SIZE, True)):
        process = forkserver().Process(target=killed_at, args=(step, size, push))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert store.exists(PUSH.dataset(size)) == there
        assert [name for name, *_ in store.local_datasets()] == [PUSH.dataset(SIZE)]
    keep(PUSH, SIZE, push)  # what was left aside is no hindrance, and goes
    assert np.array_equal(store._read_episodes(PUSH.dataset(SIZE)).actions, push.actions)
    assert not (store.folder("") / ".building").exists()


BUILD = """
from holdfast.cli.main import main
from holdfast.benchmarks.panda import recording

def record_and_say(arm, transitions, report, pool, record=recording.record_demonstrations):
    def say(*words):
        print("recording", flush=True)
        report(*words)
    return record(arm, transitions, say, pool)

recording.record_demonstrations = record_and_say
if __name__ == "__main__":
    main(["data", "build", "panda3"])
"""


def test_the_processes_of_a_killed_build_end_with_it(tmp_path):
    (tmp_path / "build.py").write_text(BUILD)
    environment = {**os.environ, "MINARI_DATASETS_PATH": str(tmp_path / "minari")}
    process = subprocess.Popen([sys.executable, tmp_path / "build.py"], env=environment, stdout=subprocess.PIPE)
    while process.stdout.readline() != b"recording\n":
        assert process.poll() is None
    process.kill()
    process.communicate(timeout=PATIENCE)  # ends with the last process that has the pipe, as all that it started have
    assert not list((tmp_path / "minari").rglob("metadata.json"))


def test_data_for_another_interface_is_refused(push):
    path = store.folder(PUSH.dataset(SIZE)) / "data" / "metadata.json"
    before = path.read_text()
    path.write_text(json.dumps({**json.loads(before), "holdfast_interface": "panda-0"}))
    with pytest.raises(Mistake, match=r"for interface panda-0, not panda-1: .* --transitions 300 --rebuild"):
        load_dataset(PUSH, SIZE)
    path.write_text(before)


@pytest.mark.parametrize("file", ["metadata.json", store.HDF5])
def test_a_damaged_dataset_is_named(push, file):
    place = store.folder(PUSH.dataset(SIZE)) / "data"
    before = (place / file).read_bytes()
    (place / file).write_bytes(before[:200])
    with pytest.raises(Mistake, match=rf"{PUSH.dataset(SIZE)} is damaged .*: delete"):
        load_dataset(PUSH, SIZE)
    (place / file).write_bytes(before)


def test_a_damaged_cache_is_made_anew(push):
    cache = store.folder(PUSH.dataset(SIZE)) / "data" / store.CACHE
    cache.write_bytes(cache.read_bytes()[:200])
    assert np.array_equal(store.read(PUSH.dataset(SIZE)).actions, push.actions)
    assert np.array_equal(store._read_cache(store.folder(PUSH.dataset(SIZE))).actions, push.actions)


def test_a_cache_of_data_that_was_changed_in_place_is_made_anew(push):
    data = store.folder(PUSH.dataset(SIZE)) / "data" / store.HDF5
    before = data.read_bytes()
    with h5py.File(data, "r+") as file:
        file["episode_0/rewards"][0] = 99.0
    assert store.read(PUSH.dataset(SIZE)).rewards[0] == 99.0
    data.write_bytes(before)
    assert np.array_equal(store.read(PUSH.dataset(SIZE)).rewards, push.rewards)


def test_more_transitions_than_the_default_are_data_of_their_own(push, monkeypatch):
    monkeypatch.setattr("holdfast.benchmarks.panda.arm.DEFAULT_SIZE", SIZE)
    keep(PUSH, SIZE, push)
    assert load_dataset(PUSH, SIZE - 50).steps < load_dataset(PUSH, SIZE).steps
    with pytest.raises(MissingData):
        load_dataset(PUSH, SIZE + 50)
    shutil.rmtree(store.folder(PUSH.dataset(SIZE)))


def test_a_dataset_in_a_folder_that_cannot_be_written_is_read(push, monkeypatch):
    (store.folder(PUSH.dataset(SIZE)) / "data" / store.CACHE).unlink()

    def refuse(*_: object) -> None:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(store, "_write_cache", refuse)
        assert np.array_equal(store.read(PUSH.dataset(SIZE)).actions, push.actions)
    store.read(PUSH.dataset(SIZE))  # makes it anew


@pytest.mark.parametrize(
    "problem", [OSError(28, store.FULL), RuntimeError(f"HDF5: {store.FULL}"), ValueError(f"HDF5: {store.FULL}")]
)
def test_a_disk_that_is_full_is_one_sentence_and_leaves_the_dataset_as_it_was(push, problem, monkeypatch):
    def fail(*_: object) -> None:
        raise problem

    monkeypatch.setattr(store, "write_episodes", fail)
    with pytest.raises(Mistake, match=r"cannot be written .* free some space"):
        keep(PUSH, SIZE, push)
    assert np.array_equal(store.read(PUSH.dataset(SIZE)).actions, push.actions)


def test_a_fault_of_ours_is_not_called_a_full_disk(push, monkeypatch):
    def fail(*_: object) -> None:
        raise ValueError("shapes differ")

    monkeypatch.setattr(store, "write_episodes", fail)
    with pytest.raises(ValueError, match="shapes differ"):
        keep(PUSH, SIZE, push)


def test_a_disk_without_room_is_not_written_to(push, monkeypatch):
    monkeypatch.setattr(store.shutil, "disk_usage", lambda path: SimpleNamespace(free=1))
    with pytest.raises(Mistake, match=r"cannot be written \(No space left on device\)"):
        store.write(PUSH.dataset(SIZE), push, None, {}, {})


def test_a_place_where_minari_cannot_keep_datasets_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "file" / "datasets"))
    with pytest.raises(Mistake, match=r"cannot keep datasets in .* set MINARI_DATASETS_PATH"):
        store.exists("panda/push-expert-v0")


def test_several_processes_read_a_dataset_for_the_first_time_at_once(push):
    cache = store.folder(PUSH.dataset(SIZE)) / "data" / store.CACHE
    with processes(4) as pool:
        for _ in range(10):
            cache.unlink()
            found = [pool.submit(store.read, PUSH.dataset(SIZE)) for _ in range(4)]
            assert all(np.array_equal(one.result().actions, push.actions) for one in found)
            assert [path.name for path in cache.parent.iterdir() if path.suffix == ".part"] == []


@pytest.mark.parametrize("task", ARMS)
def test_random_actions_earn_what_is_recorded_of_them(task):
    # The standard deviation of one episode is 4.9 at most, so 40 of them are within 2.5 with certainty enough.
    assert measure(ARMS[task], episodes=40) == pytest.approx(RANDOM_RETURNS[task], abs=2.5)


def test_processes_and_turns_give_the_same_episodes():
    def play(environments):
        rng = np.random.default_rng(0)
        story = [environments.reset([3, 1, 4])]
        for _ in range(4):
            step = environments.step(rng.uniform(-1, 1, (3, 3)).astype(np.float32))
            story += vars(step).values()
        environments.close()
        return story

    make_push = partial(make_shared, PUSH.environment)
    turns, processes = play(InTurn(make_push, 3)), play(Workers(make_push, 3, processes=2))
    assert all(np.array_equal(a, b) for a, b in zip(turns, processes, strict=True))


def failing():
    raise Mistake("this simulator does not start")


def lacking():
    raise FileNotFoundError("robot.urdf")


@pytest.mark.parametrize(
    ("make", "kind", "said"), [(failing, Mistake, "not start"), (lacking, FileNotFoundError, r"robot\.urdf")]
)
def test_what_goes_wrong_in_a_process_is_said_here(make, kind, said):
    workers = Workers(make, 2, processes=1)
    with pytest.raises(kind, match=said):
        workers.reset([0, 1])
    workers.close()


def test_a_process_ends_quietly_when_who_asked_leaves_with_an_answer_unread():
    ours, theirs = multiprocessing.Pipe()
    theirs.send("an answer")
    ours.send(("make", (cloudpickle.dumps(failing), 1)))
    ours.send(("reset", [0]))
    ours.close()
    _serve(theirs)


def test_the_simulator_is_quiet(capfd):
    make_environment(PUSH.environment).close()
    printed = capfd.readouterr()
    assert printed.out == printed.err == ""


def test_a_missing_simulator_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "panda_gym", None)
    with pytest.raises(Mistake, match=r"pip install 'holdfast\[panda\]'"):
        make_environment(PUSH.environment)


def test_a_run_builds_its_data_and_evaluating_later_gives_the_same(tmp_path, capsys):
    words = ["--suite", "panda3", "--learner", "tsn-core", "--budget", "smoke", "--no-tensorboard", "--net.width", "16"]
    main(["run", *words, "--out", str(tmp_path / "now")])
    main(["run", *words, "--out", str(tmp_path / "later"), "--evaluate", "none"])
    main(["evaluate", str(tmp_path / "later")])
    assert contents(tmp_path / "now") == contents(tmp_path / "later")
    matrix = json.loads((tmp_path / "now" / "matrix.json").read_text())
    assert matrix["metrics"]["AvgF"] == 0.0
    assert matrix["distinct_episodes"][2] == [4, 4, 4]
    assert "PandaPickAndPlace" in capsys.readouterr().out


def test_the_command_line_checks_and_lists_data(capsys):
    main(["data", "check", "panda3", "--transitions", str(SIZE), "--replays", "3"])
    assert "exactly as recorded" in capsys.readouterr().out
    for words, listed in ((), True), (("panda3",), True), (("atari5",), False):
        main(["data", "list", *words])
        assert (PUSH.dataset(SIZE) in capsys.readouterr().out) == listed


def test_only_the_tasks_that_are_asked_for_are_checked(capsys):
    main(["data", "check", "panda3", "--order", "PandaReach", "--transitions", "30", "--replays", "1"])
    printed = capsys.readouterr().out
    assert "PandaReach" in printed
    assert "PandaPush" not in printed


def test_a_reopened_panda_run_has_its_suite(tmp_path):
    found = suite("panda3", transitions=SIZE).ordered(["PandaReach"])
    run(found, tiny_learner("naive", found), tmp_path, QUIET)
    again, learner = reopen(tmp_path)
    assert (again.names, learner.learned) == (["PandaReach"], ["PandaReach"])


def test_processes_have_the_environment_of_now(monkeypatch):
    for value in ("before", "now"):
        monkeypatch.setenv("HOLDFAST_SAID", value)
        with processes(1) as pool:
            assert pool.submit(os.getenv, "HOLDFAST_SAID").result() == value
