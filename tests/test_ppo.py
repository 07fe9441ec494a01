"""PPO: its arithmetic by hand, its checkpoints to the bit, and a little of it from end to end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

pytest.importorskip("ale_py")

from holdfast.benchmarks.atari import collect, train
from holdfast.benchmarks.atari import expert as atari
from holdfast.benchmarks.atari.actor import STACK, ActionSampler, ActorCritic, load_actor, save_actor
from holdfast.benchmarks.atari.episode_returns import EpisodeReturns
from holdfast.benchmarks.atari.expert import AtariExpertConfig, make_atari_expert
from holdfast.benchmarks.atari.ppo import VECTORS, Ppo, PpoUpdater, Rollout, advantages
from holdfast.benchmarks.atari.recording import RecordingConfig
from holdfast.benchmarks.atari.replay import replay
from holdfast.benchmarks.atari.rollout_collector import RolloutCollector, horizons
from holdfast.benchmarks.atari.traces import load_traces as load_recording
from holdfast.benchmarks.atari.train import WARMUP, schedule
from holdfast.errors import Mistake


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The emulators' threads and torch's would fight for two cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_advantages_of_three_steps_are_those_solved_by_hand() -> None:
    rewards, values = torch.tensor([1.0, 0.0, 2.0]), torch.tensor([1.0, 2.0, 3.0, 4.0])
    # gamma = lambda = 1/2. surprises: 1 + 2/2 - 1 = 1; 0 + 3/2 - 2 = -1/2; 2 + 4/2 - 3 = 1
    # sums weighted by 1/4: a2 = 1, a1 = -1/2 + 1/4 = -1/4, a0 = 1 - 1/16 = 15/16
    going = advantages(rewards, torch.zeros(3), values, gamma=0.5, smoothing=0.5)
    assert going.tolist() == [15 / 16, -1 / 4, 1.0]
    # an end with step 1: nothing is expected after it. a1 = 0 - 2 = -2, a0 = 1 - 2/4 = 1/2
    ended = advantages(rewards, torch.tensor([0.0, 1.0, 0.0]), values, gamma=0.5, smoothing=0.5)
    assert ended.tolist() == [1 / 2, -2.0, 1.0]


def test_a_cut_pays_the_value_of_what_it_hides() -> None:
    config = Ppo(envs=1, steps=1, minibatch=2, gamma=0.5)
    rollout = Rollout(1, 1, torch.device("cpu"))
    rollout.values[0], rollout.values[1] = 1.0, 100.0  # the second is the next game's
    ends = np.ones(1)
    rollout.receive(0, 0, rewards=np.array([2.0]), ends=ends, beyond=np.array([4.0]))  # cut: 2 + 4/2 - 1
    rollout.receive(0, 1, rewards=np.array([2.0]), ends=ends, beyond=np.array([0.0]))  # ended: 2 - 1
    updater = PpoUpdater(ActorCritic(4), rollout, config, torch.Generator().manual_seed(0))
    updater.update(rate=0.0)
    assert updater.advantages.tolist() == [3.0, 1.0]
    assert updater.targets.tolist() == [4.0, 2.0]


def test_horizons_are_all_different_and_spread_over_both_vectors() -> None:
    steps = horizons(Ppo(envs=64, horizon=3000))
    assert steps.shape == (VECTORS, 64)
    assert len(np.unique(steps)) == steps.size
    assert (steps.min(), steps.max()) == (3000, 27_000)
    assert (abs(np.log(steps).mean(axis=1) - np.log(9000)) < 0.02).all()  # 9,000: the geometric mean of both
    assert (horizons(Ppo()) == 27_000).all()


def test_games_are_cut_at_their_horizons_with_the_value_of_their_last_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = np.array([[12, 15], [20, 1000]])
    monkeypatch.setattr("holdfast.benchmarks.atari.rollout_collector.horizons", lambda config: limits)
    player = ActorCritic(4)
    torch.nn.init.zeros_(player.critic.weight)
    torch.nn.init.constant_(player.critic.bias, 3.0)
    config = Ppo(envs=2, steps=48, minibatch=192)
    sampler = ActionSampler(player, config.envs, torch.Generator().manual_seed(0))
    collector = RolloutCollector("breakout", sampler, config, seed=0)
    collector.fill()
    collector.close()
    cut = collector.rollout.beyond == 3.0  # (T, vectors, envs)
    assert (collector.rollout.beyond[~cut] == 0).all()
    assert (collector.rollout.ends[cut] == 1).all()
    assert cut[:, 1, 1].sum() == 0
    for limit, times in zip([12, 15, 20], [cut[:, 0, 0], cut[:, 0, 1], cut[:, 1, 0]], strict=True):
        gaps = np.diff(np.flatnonzero(times), prepend=-1)
        assert len(gaps)
        assert ((limit - 8 <= gaps) & (gaps <= limit)).all()  # less by the start, of up to 30 frames
    assert len(collector.episode_returns.returns) == cut.sum()
    assert collector.episode_returns.cut() == 1.0


def test_returns_are_counted_over_all_lives_until_a_game_is_over_or_cut() -> None:
    episode_returns, no = EpisodeReturns(2, 2), np.zeros(2, bool)
    episode_returns.add(0, np.array([1, 1]), over=no, cut=no)
    episode_returns.add(0, np.array([1, -1]), over=no, cut=no)
    assert episode_returns.mean() is None
    episode_returns.add(0, np.array([1, 0]), over=np.array([True, False]), cut=no)
    assert list(episode_returns.returns) == [3.0]
    episode_returns.add(0, np.array([5, 2]), over=no, cut=np.array([False, True]))
    assert list(episode_returns.returns) == [3.0, 2.0]
    assert episode_returns.cut() == 0.5
    assert not episode_returns.reached(enough=0.0)  # two games are no evidence


def test_the_rate_rises_with_the_first_gradients_however_long_the_budget_and_then_falls() -> None:
    assert schedule(0.0, gradients=0) == 1 / WARMUP
    assert schedule(0.0, gradients=WARMUP) == 1.0
    assert schedule(0.5, gradients=WARMUP) == 0.5
    assert schedule(1.0, gradients=WARMUP) == 0.05


def test_a_checkpoint_resumes_with_the_same_weights_and_step_count(tmp_path: Path) -> None:
    player, other = ActorCritic(4), ActorCritic(4)
    save_actor(player, 1234, tmp_path / "player.safetensors")
    assert load_actor(other, tmp_path / "player.safetensors") == 1234
    for ours, theirs in zip(player.parameters(), other.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_a_sampler_draws_from_the_tempered_policy() -> None:
    player = ActorCritic(3)
    torch.nn.init.zeros_(player.actor.weight)
    player.actor.bias.data = torch.tensor([0.0, 1.0, 2.0])
    sampler = ActionSampler(player, 64, torch.Generator().manual_seed(0))
    sampler.temperatures[32:] = 1e-3
    screens = np.zeros((64, *STACK), np.uint8)
    draws = np.stack([sampler.act(screens) for _ in range(40)])  # (40, 64)
    shares = np.bincount(draws[:, :32].ravel(), minlength=3) / draws[:, :32].size
    np.testing.assert_allclose(shares, torch.tensor([0.0, 1.0, 2.0]).softmax(0), atol=0.06)
    assert (draws[:, 32:] == 2).all()


def test_learning_makes_rewarded_actions_likelier() -> None:
    torch.manual_seed(0)
    config = Ppo(envs=4, steps=4, minibatch=16)
    generator = torch.Generator().manual_seed(0)
    player, rollout = ActorCritic(4), Rollout(4, 4, torch.device("cpu"))
    updater = PpoUpdater(player, rollout, config, generator, graphs=False)
    rollout.frames.random_(0, 256, generator=generator)
    rollout.actions.random_(0, 4, generator=generator)
    rollout.log_probs.fill_(np.log(0.25))
    rollout.rewards[:] = rollout.actions[:-1] == 2
    rollout.ends[:] = 1

    def share() -> float:
        with torch.no_grad():
            return float(player(rollout.frames.view(-1, *STACK))[0].softmax(-1)[:, 2].mean())

    before = share()
    for _ in range(3):
        updater.update(rate=1e-3)
    assert share() > before + 0.02


def test_a_config_names_what_cannot_work() -> None:
    with pytest.raises(Mistake, match="must be a multiple of minibatch"):
        Ppo(envs=3, steps=5)
    with pytest.raises(Mistake, match=r"must lie in 1\.\.27000"):
        Ppo(horizon=27_001)
    with pytest.raises(Mistake, match="must be between 0 and --seconds"):
        AtariExpertConfig("breakout", Path(), seconds=10, reserve=11)
    with pytest.raises(Mistake, match="needs a checkpoint"):
        AtariExpertConfig("breakout", Path(), seconds=10, reserve=10)


TINY = Ppo(envs=2, steps=8, minibatch=16, horizon=40)
BRIEF = RecordingConfig(lanes=2, temperatures=(1.0, 0.5), trial=20)


@pytest.fixture
def _counted_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock goes on by a hundredth of a second whenever it is read: a budget is as many steps on every machine."""
    readings = count()
    for module in (atari, collect, train):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(readings) / 100))


@pytest.mark.usefixtures("_counted_time")
def test_a_whole_budget_leaves_checkpoint_recordings_and_report(tmp_path: Path) -> None:
    save_actor(ActorCritic(4), 100, tmp_path / "first.safetensors")
    out = tmp_path / "out"
    make_atari_expert(
        AtariExpertConfig(
            "breakout", out, seconds=7, reserve=6.8, init=tmp_path / "first.safetensors", ppo=TINY, recorder=BRIEF
        )
    )
    names = ["breakout-expert-10.npz.xz", "breakout-expert-100.npz.xz", "breakout.json", "breakout.safetensors"]
    assert sorted(path.name for path in out.iterdir()) == names
    report = json.loads((out / "breakout.json").read_text())
    assert set(report) > {"config", "curve", "trained", "trial", "expert-10", "expert-100", "seconds"}
    assert report["seconds"] < 7
    assert load_actor(ActorCritic(4), out / "breakout.safetensors") == report["trained"] > 100
    recording = load_recording(out / "breakout-expert-10.npz.xz")
    assert recording.origin.trained == report["trained"]
    assert len(recording.traces) == report["expert-10"]["episodes"] > 0
    assert len(list(replay(recording, lanes=2))) == len(recording.traces)
    assert "episodes were not finished in time and are missing" in report["expert-100 problem"]


def test_a_damaged_report_is_named_before_anything_is_done(tmp_path: Path) -> None:
    save_actor(ActorCritic(4), 100, tmp_path / "first.safetensors")
    (tmp_path / "first.json").write_text('{"curve": [')
    with pytest.raises(Mistake, match=r"first.json is damaged: .* delete it to continue without the earlier report"):
        make_atari_expert(
            AtariExpertConfig(
                "breakout", tmp_path / "out", init=tmp_path / "first.safetensors", ppo=TINY, recorder=BRIEF
            )
        )


@pytest.mark.usefixtures("_counted_time")
def test_a_budget_without_reserve_only_trains_and_one_that_is_all_reserve_only_records(tmp_path: Path) -> None:
    make_atari_expert(AtariExpertConfig("breakout", tmp_path / "a", seconds=0.1, reserve=0, ppo=TINY, recorder=BRIEF))
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["breakout.json", "breakout.safetensors"]
    checkpoint = tmp_path / "a" / "breakout.safetensors"
    make_atari_expert(
        AtariExpertConfig("breakout", tmp_path / "b", seconds=3, reserve=3, init=checkpoint, ppo=TINY, recorder=BRIEF)
    )
    names = ["breakout-expert-10.npz.xz", "breakout-expert-100.npz.xz", "breakout.json"]
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == names
    reports = [json.loads((tmp_path / folder / "breakout.json").read_text()) for folder in "ab"]
    assert reports[1]["before"] == reports[0]  # the whole story
    recording = load_recording(tmp_path / "b" / "breakout-expert-10.npz.xz")
    assert recording.origin.trained == load_actor(ActorCritic(4), checkpoint)
