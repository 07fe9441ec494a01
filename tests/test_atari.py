"""Atari-5: data and games show the same to the bit, an episode is a function of its seed, Minari's data fits in."""

import errno
import json
import os
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ale_py")

from holdfast.benchmarks.atari import action_lists as blind
from holdfast.benchmarks.atari.environments import AtariEnvironments
from holdfast.benchmarks.atari.frame_cache import PLACE, STACK, FrameCache, local_replays
from holdfast.benchmarks.atari.games import FIVE, STOCHASTICITY, games
from holdfast.benchmarks.atari.minari_episodes import resized
from holdfast.benchmarks.atari.sources import SHIPPED
from holdfast.benchmarks.atari.suite import BUDGETS, PROTOCOLS
from holdfast.benchmarks.atari.traces import Emulator, Origin, Recording, cut, load_traces
from holdfast.cli.main import main
from holdfast.data.episodes import Dataset, Episode
from holdfast.data.frames import stacked
from holdfast.errors import MissingData, Mistake
from holdfast.registry import LEARNERS
from holdfast.runs.configure import configure, with_protocol
from holdfast.tasks.environments import Environments, Protocol
from holdfast.tasks.suite import suite
from tests.tiny import RETAINING

RECORDED = sorted(SHIPPED.glob("*.npz.xz"))


@pytest.fixture(autouse=True, scope="module")
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PLACE, str(tmp_path_factory.mktemp("cache")))
        yield


def short(game: str, data: str = "expert-10", steps: int = 100, episodes: int = 3) -> Recording:
    recording = cut(load_traces(SHIPPED / f"{game}-{data}.npz.xz"), steps)
    return replace(recording, traces=recording.traces[:episodes])


@pytest.fixture(scope="module")
def boxing() -> Dataset:
    cached = FrameCache("boxing", short("boxing", "expert-100"))
    cached.build()
    return cached.read()


def played(environments: Environments, seeds: list[int], actions: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """What each lane showed and paid while all were given these actions."""
    frames, rewards = [environments.reset(seeds)], []
    for action in actions:
        step = environments.step(np.full(len(seeds), action))
        frames.append(step.observations)
        rewards.append(step.rewards)
    environments.close()
    return list(zip(np.swapaxes(frames, 0, 1), np.swapaxes(rewards, 0, 1), strict=True))


def test_stacks_of_replayed_data_are_equal_to_the_bit_to_what_the_emulator_shows() -> None:
    recording = short("breakout", episodes=1)
    cached = FrameCache("breakout", recording)
    cached.build()
    dataset, emulator = cached.read(), Emulator(recording.origin, STACK)
    emulator.reset()
    for row, seen in enumerate(stacked(dataset, np.arange(dataset.steps))):
        np.testing.assert_array_equal(seen, emulator.frames)
        emulator.send(int(dataset.actions[row]))
        assert emulator.receive()[0] == dataset.rewards[row]


def test_after_no_ops_games_and_data_begin_alike_and_pay_alike(boxing: Dataset) -> None:
    """An episode begins with the player's first frame; what the no-ops earned comes with the first step."""
    recording = short("boxing", "expert-100")
    assert len({trace.noops for trace in recording.traces}) > 1
    for number, trace in enumerate(recording.traces):
        episode = boxing.episode(number)
        ((frames, rewards),) = played(
            AtariEnvironments(recording.origin, STOCHASTICITY["noop"], 1), [trace.noops], episode.actions
        )
        rows = boxing.starts[number] + np.arange(len(episode))
        np.testing.assert_array_equal(stacked(boxing, rows), frames[:-1])
        np.testing.assert_array_equal(rewards, episode.rewards)
        assert episode.total == trace.score


@pytest.mark.parametrize("protocol", STOCHASTICITY)
def test_an_episode_is_a_function_of_its_seed_in_any_lane_among_any_others(protocol: str) -> None:
    origin, actions = Origin("boxing", "", horizon=100), np.random.default_rng(0).integers(18, size=60)
    first, second = played(AtariEnvironments(origin, STOCHASTICITY[protocol], 2), [5, 6], actions)
    ((alone, paid),) = played(AtariEnvironments(origin, STOCHASTICITY[protocol], 3), [6], actions)
    np.testing.assert_array_equal(second[0], alone)
    np.testing.assert_array_equal(second[1], paid)
    assert (first[0].tobytes() == second[0].tobytes()) == (protocol == "paper")  # only there all episodes are one


def test_the_episodes_of_protocol_noop_all_start_differently() -> None:
    environments = AtariEnvironments(Origin("boxing", "", horizon=100), STOCHASTICITY["noop"], 20)
    assert len({frames.tobytes() for frames in environments.reset(Protocol("noop", 20).seeds)}) == 20
    environments.close()


def test_a_lane_that_ended_rests_and_the_others_go_on() -> None:
    environments = AtariEnvironments(Origin("boxing", "", horizon=40), STOCHASTICITY["noop"], 2)
    environments.reset([1, 2])  # seeds with different numbers of no-ops, which count as steps
    ends: list[int] = []
    for step in range(41):
        taken = environments.step(np.zeros(2, int))
        ends += [step] * (taken.ended.sum() - len(ends))
        np.testing.assert_array_equal(taken.cut, taken.ended)
    environments.close()
    assert len(set(ends)) == 2


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_every_recording_fits_its_game_and_tells_its_return_along_the_way(path: Path) -> None:
    recording = load_traces(path)
    game = next(game for game in FIVE if game.rom == recording.origin.game)
    assert max(trace.actions.max() for trace in recording.traces) < game.actions
    assert all(trace.progress is not None for trace in recording.traces)
    assert recording.origin.horizon == game.horizon
    noops = {trace.noops for trace in recording.traces}
    assert noops == {0} if "expert-10." in path.name else len(noops) > 5 and max(noops) <= 30


def test_all_recordings_are_small() -> None:
    assert sum(path.stat().st_size for path in RECORDED) < 3_000_000


def test_the_emulator_has_as_many_actions_as_a_task_says() -> None:
    for game in FIVE:
        emulator = Emulator(game.origin)
        assert emulator.env.single_action_space.n == game.actions
        emulator.close()


def test_targets_are_the_largest_returns_of_the_data_also_where_it_is_cut() -> None:
    recording = load_traces(SHIPPED / "boxing-expert-10.npz.xz")
    assert suite("atari5").task("Boxing").target == max(trace.score for trace in recording.traces)
    small = suite("atari5", ["Boxing"], transitions=1_000)
    assert small.task("Boxing").target == small.task("Boxing").dataset.totals.max()
    assert small.interface.horizon == small.task("Boxing").dataset.lengths.max() == 100


def test_a_game_that_is_not_recorded_is_one_sentence_when_its_data_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.benchmarks.atari.sources.SHIPPED", Path("nowhere"))
    alien = suite("atari5").task("Alien")
    with pytest.raises(Mistake, match="no expert-10 episodes of alien are recorded yet: choose other games"):
        alien.dataset  # noqa: B018


def test_a_build_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(PLACE, str(tmp_path))
    recording = short("boxing", episodes=1)
    (trace,) = recording.traces
    broken = FrameCache("broken", replace(recording, traces=[replace(trace, checksums=trace.checksums + 1)]))
    with pytest.raises(Mistake, match="boxing, episode 0: the frames of steps 0 to 99 differ from the recording"):
        broken.build()
    with pytest.raises(MissingData):
        broken.read()
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_what_another_process_built_meanwhile_stays_and_what_it_left_is_not_listed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(PLACE, str(tmp_path))
    cached = FrameCache("boxing", short("boxing", episodes=1))
    cached.build()
    first = cached.folder.stat().st_ino
    cached.build(again=False)
    assert cached.folder.stat().st_ino == first
    left = cached.folder.rename(tmp_path / f".{cached.folder.name}.before")  # killed before the new one took its place
    assert local_replays() == []
    cached.build()
    assert [name for name, *_ in local_replays()] == [cached.folder.name]
    assert not left.exists()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads cannot be counted here")
def test_a_closed_emulator_has_no_threads() -> None:
    before = len(os.listdir("/proc/self/task"))
    emulators = [Emulator(Origin("boxing", "")) for _ in range(3)]
    assert len(os.listdir("/proc/self/task")) >= before + 3
    for emulator in emulators:
        emulator.reset()
        emulator.close()
    assert len(os.listdir("/proc/self/task")) == before


def test_a_cache_is_the_recordings_own_and_a_damaged_one_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(PLACE, str(tmp_path))
    one, other = (
        FrameCache("boxing", replace(short("boxing"), traces=[trace])) for trace in short("boxing").traces[:2]
    )
    one.build()
    assert not other.exists()
    assert one.read().fingerprint != replace(one.read(), origin="x").fingerprint
    frames = np.load(one.folder / "frames.npy", mmap_mode="r+")
    frames[42, 0, 0] += 1
    frames.flush()
    with pytest.raises(Mistake, match=r"is damaged \(episode 0 differs from the recording from step 0 on\)"):
        one.read()
    frames[42, 0, 0] -= 1
    frames.flush()
    (one.folder / "steps.npz").write_bytes(b"")
    with pytest.raises(Mistake, match="is damaged"):
        one.read()


def test_neighbouring_episodes_are_a_view_and_any_others_the_same_steps(boxing: Dataset) -> None:
    assert np.shares_memory(boxing.take([1, 2]).observations, boxing.observations)
    mixed = boxing.take([2, 0])
    rows = boxing.starts[2] + np.arange(5)
    np.testing.assert_array_equal(stacked(mixed, np.arange(5)), stacked(boxing, rows))
    assert mixed.stack == boxing.stack
    assert len({boxing.fingerprint, mixed.fingerprint, boxing.take([1, 2]).fingerprint}) == 3
    assert boxing.take(np.array([1, 2])).fingerprint == boxing.take([1, 2]).fingerprint
    with pytest.raises(Mistake, match="only single frames can be stacked"):
        Dataset.of([Episode(np.zeros((2, 3)), np.zeros(2, int), np.zeros(2))], stack=4)


def test_the_commands_build_check_and_list_replays(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["atari5", "--order", "Boxing", "--transitions", "1000"]
    main(["data", "build", *words])
    main(["data", "check", *words, "--replays", "2"])
    with pytest.raises(SystemExit):
        main(["data", "check", *words, "--replays", "-1"])
    main(["data", "list"])
    assert "boxing-expert-10-100" in capsys.readouterr().out


def test_recorded_actions_earn_the_recorded_returns_where_there_is_no_chance_and_others_where_there_is() -> None:
    game = games("expert-10", 1_000)["Boxing"]
    lists, scores = blind.recorded(game, 3), [trace.score for trace in short("boxing").traces]
    assert blind.returns(game, Protocol("paper", 3, lanes=2), lists) == scores
    assert blind.returns(game, Protocol("sticky", 3), lists) != scores
    assert np.unique(blind.random(game, 3)).tolist() == list(range(game.actions))


@pytest.mark.parametrize(("words", "said"), [("--episodes 0 --out x", "at least 1"), ("--out .", "cannot be written")])
def test_mistakes_with_lists_are_said_before_anything_is_played(
    words: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["blind", *words.split()])
    with pytest.raises(SystemExit, match="2"):
        blind.main()
    assert said in capsys.readouterr().err


def test_every_reset_is_as_the_first() -> None:
    # Boxing's 17th of an emulator is not, where its random numbers go on.
    emulator, seen = Emulator(short("boxing", episodes=1).origin), set()
    for _ in range(18):
        emulator.reset()
        for _ in range(40):
            emulator.send(0)
            emulator.receive()
        seen.add(emulator.frames.tobytes())
    emulator.close()
    assert len(seen) == 1


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="room cannot be taken beforehand here")
def test_a_full_disk_is_noticed_before_frames_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setenv(PLACE, str(tmp_path))
    monkeypatch.setattr(os, "posix_fallocate", refuse)
    cached = FrameCache("boxing", short("boxing", episodes=1))
    with pytest.raises(Mistake, match=f"No space left on device.*{PLACE}"):
        cached.build()
    assert not cached.exists()
    assert not list(tmp_path.rglob("frames.npy"))


def test_frames_are_listed_without_minari(
    boxing: Dataset, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "minari", None)
    main(["data", "list"])
    assert "boxing" in capsys.readouterr().out


def test_a_damaged_note_hides_its_frames_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PLACE, str(tmp_path))
    for name, content in (("alien-of-late", b'{"name": "alien", "episodes": 1, "transitions": 2}'), ("b", b"\x93")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "about.json").write_bytes(content)
    main(["data", "list", "atari5"])
    assert capsys.readouterr().out.startswith("alien-of-late ")


@pytest.mark.parametrize("learner", LEARNERS)
def test_every_learner_runs_on_games_from_the_command_line(learner: str, tmp_path: Path) -> None:
    """With 4 actions and with 18; the default order has all five games."""
    order = [] if learner == "affinity-l" else ["--order", "Breakout", "Alien"]
    words = ["--suite", "atari5", "--learner", learner, *order, "--budget", "smoke", "--no-tensorboard"]
    main(["run", *words, "--out", str(tmp_path)])
    matrix = json.loads((tmp_path / "matrix.json").read_text())
    assert matrix["tasks"] == (order[1:] or [game.task for game in FIVE])
    assert matrix["metrics"]["AvgF"] == 0.0 or learner not in RETAINING


def test_unknown_data_and_protocols_are_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Mistake, match="it has expert-10, expert-100, minari"):
        games("expert-7", None)
    with pytest.raises(Mistake, match="it has paper, noop, sticky"):
        FIVE[0].environments(Protocol("fixed-seeds"))
    with pytest.raises(SystemExit):
        main(["run", "--suite", "atari5", "--order", "Boxing", "--budget", "smoke", "--protocol.name", "random"])
    assert "the suite atari5 has no protocol 'random'; it has paper, noop, sticky" in capsys.readouterr().err
    assert {budget["protocol.name"] for budget in BUDGETS.values()} <= set(STOCHASTICITY)


def test_a_protocol_by_name_says_how_many_episodes_it_has() -> None:
    for name, settings in PROTOCOLS.items():
        assert with_protocol(configure("atari5", "naive"), name).protocol == Protocol(
            name, settings["protocol.episodes"]
        )
    assert configure("atari5", "naive", budget="full").data == "expert-100"


# Minari's own data


def random_play(env: Any, rng: np.random.Generator, number: int) -> Any:
    """An episode in Minari's own form."""
    from minari.data_collector import EpisodeBuffer

    screens, steps, over = [env.reset(seed=number)[0]], [], False
    while not over:
        action = int(rng.integers(4))
        screen, reward, terminated, truncated, _ = env.step(action)
        screens.append(screen)
        steps.append((action, reward, terminated, truncated))
        over = terminated or truncated
    actions, rewards, terminations, truncations = (list(column) for column in zip(*steps, strict=True))
    return EpisodeBuffer(
        id=number, seed=number, observations=np.array(screens), actions=np.array(actions), rewards=rewards,
        terminations=terminations, truncations=truncations, infos=None,
    )  # fmt: skip


@pytest.fixture(scope="module")
def minari_breakout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two episodes of random play as Minari's Atari data is: raw screens, raw rewards, no max-pooling."""
    minari = pytest.importorskip("minari")
    import ale_py
    import gymnasium

    root = tmp_path_factory.mktemp("minari")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of authors and links
        patch.setenv("MINARI_DATASETS_PATH", str(root))
        gymnasium.register_envs(ale_py)
        env = gymnasium.make("ALE/Breakout-v5", frameskip=4, repeat_action_probability=0.0)
        rng = np.random.default_rng(0)
        buffers = [random_play(env, rng, number) for number in range(2)]
        minari.create_dataset_from_buffers("atari/breakout/expert-v0", buffers, env=env, data_format="hdf5")
        env.close()
        yield root


def test_screens_are_resized_to_the_bit_as_the_emulator_does() -> None:
    import ale_py
    import gymnasium

    gymnasium.register_envs(ale_py)
    env = gymnasium.make("ALE/Alien-v5", frameskip=4, repeat_action_probability=0.0)
    emulator, rng = Emulator(Origin("alien", "", maxpool=False)), np.random.default_rng(0)
    screens, shown = [env.reset(seed=3)[0]], []
    emulator.reset()
    for _ in range(150):
        shown.append(emulator.frames[-1])
        action = int(rng.integers(18))
        screens.append(env.step(action)[0])
        emulator.send(action)
        emulator.receive()
    np.testing.assert_array_equal(resized(np.array(screens[:-1])), shown)


@pytest.mark.usefixtures("minari_breakout")
def test_minari_data_is_imported_compared_and_played_without_max_pooling() -> None:
    import minari

    found = suite("atari5", ["Breakout"], data="minari")
    (task,) = found.tasks
    recorded = list(minari.load_dataset("atari/breakout/expert-v0").iterate_episodes())
    dataset = task.dataset
    assert dataset.lengths.tolist() == [len(episode.rewards) for episode in recorded]
    assert dataset.totals.tolist() == [np.sign(episode.rewards).sum() for episode in recorded]
    assert task.target == dataset.totals.max()
    ((frames, rewards),) = played(task.environments(Protocol("paper", 1)), [0], recorded[0].actions[:50])
    np.testing.assert_array_equal(stacked(dataset, np.arange(50)), frames[:-1])
    np.testing.assert_array_equal(rewards, dataset.rewards[:50])
    difference = resized(recorded[0].observations[:50]).astype(int) - dataset.observations[:50]
    assert np.abs(difference).max() < 20  # JPEG, as Minari keeps screens
    assert suite("atari5", ["Breakout"], 1_000, "minari").task("Breakout").dataset.lengths.max() == 100


def test_minari_data_that_does_not_replay_is_named_with_episode_and_step(minari_breakout: Path) -> None:
    import h5py

    with h5py.File(minari_breakout / "atari/breakout/expert-v0/data/main_data.hdf5", "a") as file:
        file["episode_1/rewards"][7] = 5.0
    with pytest.raises(Mistake, match=r"expert-v0, episode 1: the reward of step 7 is 0, but 5.0 was recorded"):
        suite("atari5", ["Breakout"], data="minari").task("Breakout").dataset  # noqa: B018


def test_a_minari_dataset_that_is_not_here_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    with pytest.raises(Mistake, match="minari download atari/boxing/expert-v0"):
        suite("atari5", ["Boxing"], data="minari").task("Boxing").dataset  # noqa: B018
