"""A trace is the whole truth about an episode: replayed anywhere, it gives the recorded frames, rewards and end."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ale_py")

from holdfast.benchmarks.atari.collect import collect_episodes, first_steps
from holdfast.benchmarks.atari.replay import replay
from holdfast.benchmarks.atari.traces import (
    BLOCK,
    Origin,
    Recording,
    Trace,
    checksums_of,
    cut,
    emulators,
    load_traces,
    save_traces,
)
from holdfast.errors import Mistake

ATARI5 = ("breakout", "alien", "atlantis", "boxing", "centipede")


def recorded(game: str, noops: list[int], horizon: int) -> tuple[Recording, list[np.ndarray]]:
    """Random play in two lanes, and the frames that its player saw, in the order of the episodes."""
    origin = Origin(game, "random", horizon=horizon)
    env = emulators(origin, 2, stack=4)
    rng = np.random.default_rng(0)
    seen: list[np.ndarray] = []

    def act(frames: np.ndarray) -> np.ndarray:
        seen.append(frames[:, -1].copy())
        return rng.integers(env.single_action_space.n, size=len(frames))

    takes = collect_episodes(act, env, noops, seed=1, deadline=math.inf)
    env.close()
    assert all(take.complete for take in takes)
    return Recording(origin, [take.trace() for take in takes]), seen


@pytest.fixture(scope="module")
def breakout() -> Recording:
    return recorded("breakout", [0, 3, 30], horizon=250)[0]


def trace_of(length: int = 3, **changes: object) -> Trace:
    frames = np.zeros((length, 84, 84), np.uint8)
    return replace(Trace(np.zeros(length, np.uint8), checksums_of(frames), score=0), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("game", ATARI5)
def test_a_replay_shows_the_very_frames_that_the_player_saw(game: str) -> None:
    recording, seen = recorded(game, [0, 5], horizon=120)  # the frames of the no-ops are compared, and not kept
    for replayed in replay(recording, lanes=1):  # the second episode follows a restart
        trace = recording.traces[replayed.episode]
        expected = np.stack([frames[replayed.episode] for frames in seen[trace.noops : len(trace)]])
        np.testing.assert_array_equal(replayed.frames, expected)
        assert replayed.rewards.sum() == trace.score


def test_every_episode_of_a_lane_replays() -> None:
    env = emulators(origin := Origin("boxing", "idle", horizon=60), 1, stack=4)  # its 17th start would be another
    takes = collect_episodes(lambda frames: np.zeros(len(frames), np.int64), env, [0] * 18, seed=1, deadline=math.inf)
    env.close()
    assert len(list(replay(Recording(origin, [take.trace() for take in takes])))) == 18


def test_a_replay_gives_recorded_length_and_return_in_any_number_of_lanes(breakout: Recording) -> None:
    for lanes in (2, 8):
        replays = {replayed.episode: replayed for replayed in replay(breakout, lanes)}
        assert sorted(replays) == list(range(len(breakout.traces)))
        assert [len(replays[i].rewards) for i in sorted(replays)] == [
            len(trace) - trace.noops for trace in breakout.traces
        ]
        assert [replays[i].rewards.sum() for i in sorted(replays)] == [trace.score for trace in breakout.traces]


def test_a_no_op_start_is_part_of_the_actions(breakout: Recording) -> None:
    assert [trace.noops for trace in breakout.traces] == [0, 3, 30]
    assert not breakout.traces[2].actions[:30].any()
    assert breakout.traces[2].actions[30:].any()


def test_what_was_saved_is_loaded_to_the_bit(breakout: Recording, tmp_path: Path) -> None:
    save_traces(breakout, tmp_path / "one")
    save_traces(load_traces(tmp_path / "one"), tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    loaded = load_traces(tmp_path / "one")
    assert loaded.origin == breakout.origin
    for ours, theirs in zip(loaded.traces, breakout.traces, strict=True):
        assert (ours.score, ours.noops) == (theirs.score, theirs.noops)
        np.testing.assert_array_equal(ours.actions, theirs.actions)
        np.testing.assert_array_equal(ours.checksums, theirs.checksums)
        np.testing.assert_array_equal(ours.progress, theirs.progress)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def test_a_recording_without_episodes_is_saved_loaded_and_replayed(tmp_path: Path) -> None:
    save_traces(Recording(Origin("breakout", "nobody"), []), tmp_path / "none")
    assert list(replay(load_traces(tmp_path / "none"))) == []


def tampered(recording: Recording, **changes: object) -> Recording:
    return replace(recording, traces=[recording.traces[0], replace(recording.traces[1], **changes)])  # type: ignore[arg-type]


def test_a_tampered_action_is_found_within_its_block(breakout: Recording) -> None:
    actions = breakout.traces[1].actions.copy()
    actions[5:40] = 2  # the paddle goes right
    with pytest.raises(Mistake, match="breakout, episode 1: the frames of steps 0 to 99 differ from the recording"):
        list(replay(tampered(breakout, actions=actions)))


def test_a_tampered_checksum_names_its_block(breakout: Recording) -> None:
    checksums = breakout.traces[1].checksums.copy()
    checksums[1] ^= 1
    first, last = BLOCK, min(2 * BLOCK, len(breakout.traces[1])) - 1
    with pytest.raises(Mistake, match=f"breakout, episode 1: the frames of steps {first} to {last} differ"):
        list(replay(tampered(breakout, checksums=checksums)))


def test_a_tampered_return_or_length_names_the_step(breakout: Recording) -> None:
    trace = breakout.traces[1]
    end = len(trace) - 1
    with pytest.raises(Mistake, match=f"breakout, episode 1: the return after step {end} is"):
        list(replay(tampered(breakout, score=trace.score + 1, progress=None)))
    later = trace.progress + (np.arange(len(trace.progress)) == 0)
    with pytest.raises(Mistake, match=f"breakout, episode 1: the return after step {BLOCK - 1} is"):
        list(replay(tampered(breakout, progress=later)))
    short = {"actions": trace.actions[:BLOCK], "checksums": trace.checksums[:1], "progress": None}
    with pytest.raises(Mistake, match="breakout, episode 1: the replay went on after step 99"):
        list(replay(tampered(breakout, **short)))


def test_a_damaged_recording_is_named(breakout: Recording, tmp_path: Path) -> None:
    save_traces(breakout, path := tmp_path / "breakout.npz.xz")
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(Mistake, match=r"breakout\.npz\.xz is damaged"):
        load_traces(path)


def test_a_trace_checks_itself_at_birth() -> None:
    trace_of(3)
    with pytest.raises(Mistake, match="at least one uint8 action"):
        trace_of(3, actions=np.zeros(3))
    with pytest.raises(Mistake, match="3 steps need 1 uint32 checksums"):
        trace_of(3, checksums=np.zeros(2, np.uint32))
    for wrong in ({"actions": np.ones(3, np.uint8), "noops": 2}, {"noops": 3}):
        with pytest.raises(Mistake, match="no-ops must begin with that many zeros and have more actions"):
            trace_of(3, **wrong)
    with pytest.raises(Mistake, match="longer than the horizon of 2"):
        Recording(Origin("breakout", "nobody", horizon=2), [trace_of(3)])


def test_a_cut_recording_is_what_an_emulator_plays_that_stops_there(breakout: Recording) -> None:
    replays = {replayed.episode: replayed for replayed in replay(breakout)}
    untold = replace(breakout, traces=[replace(trace, progress=None) for trace in breakout.traces])
    with pytest.raises(Mistake, match="cannot be cut, because it has no returns"):
        cut(untold, BLOCK)
    for replayed in replay(cut(breakout, BLOCK)):
        whole, noops = replays[replayed.episode], breakout.traces[replayed.episode].noops
        np.testing.assert_array_equal(replayed.frames, whole.frames[: BLOCK - noops])
        np.testing.assert_array_equal(replayed.rewards, whole.rewards[: BLOCK - noops])


def test_the_first_traces_are_kept_while_they_fit() -> None:
    traces = [trace_of(length) for length in (3, 4, 1)]
    assert [len(trace) for trace in first_steps(traces, 7)] == [3, 4]
    assert [len(trace) for trace in first_steps(traces, 6)] == [3]
    assert first_steps([], 6) == []
