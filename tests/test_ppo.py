"""PPO: its arithmetic by hand, its checkpoints to the bit, and a few seconds of it from end to end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("ale_py")

from holdfast.data.replay import replay
from holdfast.data.traces import load as load_recording
from holdfast.experts.player import STACK, Player, Sampler, load, save
from holdfast.experts.ppo import Config, Learner, Rollout, Tally, advantages, run


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


def test_returns_are_counted_over_all_lives_and_closed_by_a_new_game() -> None:
    tally = Tally(envs=2)
    tally.add(0, np.array([1, 1]), np.array([4, 4]))
    tally.add(0, np.array([1, -1]), np.array([8, 8]))
    assert tally.mean() is None
    tally.add(0, np.array([1, 0]), np.array([2, 12]))  # the first emulator's counter fell: a new game
    assert list(tally.returns) == [3.0]
    assert not tally.reached(enough=0.0)  # one episode is no evidence


def test_a_checkpoint_resumes_with_the_same_weights_and_step_count(tmp_path: Path) -> None:
    player, other = Player(4), Player(4)
    save(player, 1234, tmp_path / "player.safetensors")
    assert load(other, tmp_path / "player.safetensors") == 1234
    for ours, theirs in zip(player.parameters(), other.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_a_sampler_draws_from_the_tempered_policy() -> None:
    player = Player(3)
    torch.nn.init.zeros_(player.actor.weight)
    player.actor.bias.data = torch.tensor([0.0, 1.0, 2.0])
    sampler = Sampler(player, 64, torch.Generator().manual_seed(0))
    sampler.temperatures[32:] = 1e-3
    screens = np.zeros((64, *STACK), np.uint8)
    draws = np.stack([sampler.act(screens) for _ in range(40)])  # (40, 64)
    shares = np.bincount(draws[:, :32].ravel(), minlength=3) / draws[:, :32].size
    np.testing.assert_allclose(shares, torch.tensor([0.0, 1.0, 2.0]).softmax(0), atol=0.06)
    assert (draws[:, 32:] == 2).all()


def test_learning_makes_rewarded_actions_likelier() -> None:
    torch.manual_seed(0)
    config = Config("breakout", Path(), envs=4, steps=4, minibatch=16, graphs=False)
    generator = torch.Generator().manual_seed(0)
    player, rollout = Player(4), Rollout(4, 4, torch.device("cpu"))
    learner = Learner(player, rollout, config, generator)
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
        learner.learn(rate=1e-3)
    assert share() > before + 0.02


def test_a_config_names_what_cannot_work() -> None:
    with pytest.raises(ValueError, match="no whole number of minibatches"):
        Config("breakout", Path(), envs=3, steps=5)
    with pytest.raises(ValueError, match="leaves nothing"):
        Config("breakout", Path(), seconds=10, reserve=10)


def test_a_few_seconds_from_end_to_end_leave_checkpoint_recordings_and_report(tmp_path: Path) -> None:
    save(Player(4), 100, tmp_path / "first.safetensors")
    out = tmp_path / "out"
    run(
        Config(
            "breakout",
            out,
            seconds=8,
            reserve=6.5,
            init=tmp_path / "first.safetensors",
            envs=2,
            steps=8,
            minibatch=16,
            lanes=2,
            temperatures=(1.0, 0.5),
            trial=20,
        )
    )
    names = ["breakout-expert-10.npz.xz", "breakout-expert-100.npz.xz", "breakout.json", "breakout.safetensors"]
    assert sorted(path.name for path in out.iterdir()) == names
    report = json.loads((out / "breakout.json").read_text())
    assert set(report) > {"config", "curve", "trained", "trial", "expert-10", "expert-100", "seconds"}
    assert report["seconds"] < 8
    assert load(Player(4), out / "breakout.safetensors") == report["trained"] > 100
    recording = load_recording(out / "breakout-expert-100.npz.xz")
    assert recording.origin.trained == report["trained"]
    assert len(recording.traces) == report["expert-100"]["episodes"] > 0
    assert len(list(replay(recording, lanes=2, seed=3))) == len(recording.traces)
