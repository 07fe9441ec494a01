"""An agent learns data of any kind, one task after another, and nothing that it learned before moves."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import holdfast
from holdfast.agent.agent import Agent, Learned
from holdfast.agent.exported_folder import load_exported
from holdfast.cli.main import main
from holdfast.errors import Busy, Mistake
from holdfast.subnets.stored_masks import DEFLATED, PLAIN
from holdfast.tasks.recorded import read
from tests.agents import interrupted
from tests.recorded_data import ENVIRONMENTS, Played, as_dicts, play, row, write_npz
from tests.tiny import QUIET, SMALL, contents, tiny_learner, tiny_suite

KINDS = ["cartpole", "pendulum", "dict", "multi", "taxi", "images", "tuple"]
SETTINGS = {name: value for name, value in SMALL.items() if name.startswith(("net.", "fit."))}


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path / "agent", settings=SETTINGS, device="cpu")


def learn(agent: Agent, name: str, kind: str, **more: Any) -> Learned:
    return agent.learn(name, as_dicts(played(kind)), budget="smoke", quiet=True, **more)


def played(kind: str) -> list[Played]:
    return play(ENVIRONMENTS[kind])


def actions(agent: Agent, name: str, kind: str) -> bytes:
    """What the policy of a task does on recorded observations."""
    policy, episode = agent.policy(name), played(kind)[0]
    policy.reset()
    steps = range(len(episode.rewards))
    return b"".join(np.asarray(policy.act(row(episode.observations, step), 1.0)).tobytes() for step in steps)


def test_tasks_of_any_interface_in_any_order_leave_earlier_ones_as_they_were(agent):
    known: dict[str, tuple[str, bytes]] = {}
    for number, kind in enumerate(np.random.default_rng(0).choice(KINDS, 8).tolist()):
        name = f"{kind}-{number}"
        learn(agent, name, kind)
        known[name] = (kind, actions(agent, name, kind))
        assert agent.verify() == list(known)
    again = Agent(agent.path)
    for name, (kind, did) in known.items():
        assert actions(again, name, kind) == did


def test_a_policy_takes_raw_observations_and_gives_actions_of_the_environment(agent):
    for kind in KINDS:
        learn(agent, kind, kind)
        policy, env = agent.policy(kind), ENVIRONMENTS[kind]()
        policy.reset()
        observation, _ = env.reset(seed=0)
        for _ in range(3):
            action = policy.act(observation)
            assert env.action_space.contains(action), (kind, action)
            observation, *_ = env.step(action)


def test_several_episodes_at_once_are_those_one_after_the_other(agent):
    learn(agent, "swing", "pendulum")
    policy, episode = agent.policy("swing"), played("pendulum")[0]
    policy.reset(2)
    together = [policy.act(episode.observations[[step, step + 1]], np.zeros(2)) for step in range(3)]
    policy.reset()
    alone = [policy.act(episode.observations[step]) for step in range(3)]
    np.testing.assert_allclose(np.stack(together)[:, 0], np.stack(alone), atol=1e-5)


def test_learning_says_where_the_task_went_what_it_cost_and_how_well_it_does(agent):
    first = learn(agent, "balance", "cartpole", env="CartPole-v1")
    assert first.route["opened"]
    assert first.bytes["weights"] > 0
    assert len(first.played.returns) == 10
    assert all(value == round(value) for value in np.round(first.played.returns, 6))  # raw rewards of 1 a step
    assert set(first.record.score) == {"likelihood", "constant likelihood"}
    assert first.record.episodes == 3
    second = learn(agent, "swing", "pendulum")
    assert second.route["reason"] == "no learned task has its interface"
    assert second.played is None
    assert set(second.record.score) == {"squared error", "constant squared error"}


def test_a_preview_says_what_learning_then_does_and_changes_nothing(agent):
    learn(agent, "swing", "pendulum")
    before = contents(agent.path)
    data = as_dicts(played("pendulum"))
    found = agent.preview("swing-2", data)
    assert contents(agent.path) == before
    assert found.seconds > 0
    assert any("may be swing again" in warning for warning in found.warnings)
    learned = learn(agent, "swing-2", "pendulum")
    told, did = json.loads(json.dumps(found.route)), json.loads(json.dumps(learned.route))
    assert told == did
    other = agent.preview("balance", as_dicts(played("cartpole")))
    assert other.route["opened"]
    assert not other.route["candidates"]


@pytest.mark.parametrize("kind", ["pendulum", "taxi", "images"])
def test_but_for_masks_a_preview_expects_the_bytes_that_come(agent, kind, monkeypatch):
    monkeypatch.setattr("holdfast.subnets.expected.mask_bytes", lambda selected, total: 0)
    before = 0
    for name in ("one", "two"):
        found = agent.preview(name, as_dicts(played(kind)))
        after = learn(agent, name, kind).bytes["weights"]
        stored = agent.folder.store.snapshot(-1).weights[f"task-{name}"]
        masks = sum(tensor.nbytes for key, tensor in stored.items() if key.split("/")[-1] in (PLAIN, DEFLATED))
        assert found.bytes == after - before - masks
        before = after


def test_data_without_rewards_is_cloned_without_a_return_to_ask_for(agent):
    without = [{name: value for name, value in vars(one).items() if name != "rewards"} for one in played("pendulum")]
    learned = agent.learn("swing", without, budget="smoke", quiet=True)
    assert not learned.record.has_rewards
    assert learned.record.target == 0
    assert any("reward" in note for note in learned.notes)


def test_interrupted_learning_continues_and_ends_at_the_same_bits(tmp_path, monkeypatch):
    whole = Agent(tmp_path / "whole", settings=SETTINGS, device="cpu")
    learn(whole, "swing", "pendulum")
    agent = Agent(tmp_path / "agent", settings=SETTINGS, device="cpu")

    with interrupted(monkeypatch):
        learn(agent, "swing", "pendulum")
    assert agent.tasks == []
    learn(agent, "swing", "pendulum")
    assert [one.fingerprint for one in agent.folder.read_certificates()] == [
        one.fingerprint for one in whole.folder.read_certificates()
    ]


def test_interrupted_learning_with_another_budget_begins_anew(tmp_path, monkeypatch):
    monkeypatch.setattr("holdfast.agent.agent.BUDGETS", {"smoke": 8, "quick": 12})
    data = as_dicts(played("pendulum"))
    whole = Agent(tmp_path / "whole", settings=SETTINGS, device="cpu")
    whole.learn("swing", data, budget="quick", quiet=True)
    agent = Agent(tmp_path / "agent", settings=SETTINGS, device="cpu")

    with interrupted(monkeypatch):
        agent.learn("swing", data, budget="smoke", quiet=True)
    agent.learn("swing", data, budget="quick", quiet=True)
    assert [one.fingerprint for one in agent.folder.read_certificates()] == [
        one.fingerprint for one in whole.folder.read_certificates()
    ]


def test_another_return_can_be_asked_for_and_what_is_exported_acts_the_same(agent, tmp_path):
    learn(agent, "swing", "pendulum")
    agent.export("swing", tmp_path / "low", target=-1_000.0)
    policy, exported = agent.policy("swing", target=-1_000.0), load_exported(tmp_path / "low")
    assert policy.policy.target == -1_000.0
    episode = played("pendulum")[0]
    for one in (policy, exported):
        one.reset()
    for observation, reward in zip(episode.observations, [0.0, *episode.rewards], strict=True):
        np.testing.assert_array_equal(policy.act(observation, reward), exported.act(observation, reward))


def test_a_second_process_is_refused_while_one_learns(agent):
    with Agent(agent.path).folder, pytest.raises(Busy, match="another process is working in"):
        learn(agent, "swing", "pendulum")
    assert agent.tasks == []


def test_a_finished_run_is_an_agent_that_learns_on(tmp_path):
    suite = tiny_suite("toy-continuous", 2)
    holdfast.run(suite, tiny_learner("affinity-l", suite), tmp_path / "run", QUIET)
    before = holdfast.reopen(tmp_path / "run", "cpu", suite)[1]
    agent = Agent(tmp_path / "run", device="cpu")
    assert agent.verify() == suite.names
    learn(agent, "swing", "pendulum")
    assert agent.tasks == [*suite.names, "swing"]
    suite_after, after = holdfast.reopen(tmp_path / "run", "cpu", suite)
    assert after.learned == agent.tasks
    for name in suite_after.names:
        ours, theirs = before.policy(name).net.state_dict(), after.policy(name).net.state_dict()
        assert all((ours[part] == theirs[part]).all() for part in ours)
    with pytest.raises(Mistake, match="is a task of the run's suite"):
        agent.policy(suite.names[0])


def test_a_flipped_bit_is_named_by_task_and_tensor(agent):
    learn(agent, "swing", "pendulum")
    learn(agent, "balance", "cartpole")
    file = next((agent.path / "weights").glob("task-swing*.safetensors"))
    content = file.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    begin = 8 + int.from_bytes(content[:8], "little")
    for tensor, place in header.items():
        if tensor == "__metadata__" or place["data_offsets"][0] == place["data_offsets"][1]:
            continue
        damaged = bytearray(content)
        damaged[begin + place["data_offsets"][1] - 1] ^= 1
        file.write_bytes(damaged)
        with pytest.raises(
            Mistake,
            match=re.escape(
                f"task-swing.0.safetensors was changed or truncated after it was written (in its tensor {tensor})"
            ),
        ):
            agent.verify()
    file.write_bytes(content)
    assert agent.verify() == ["swing", "balance"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"budget": "long"}, "there is no budget 'long'"),
        ({"env": "Nowhere-v0"}, "the environment 'Nowhere-v0' cannot be made here"),
        ({"data": "nowhere.npz"}, "there is no file or folder"),
        ({"name": "../up"}, "a task's name must consist of letters"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_lost(agent, arguments, sentence):
    learn(agent, "swing", "pendulum")
    given = {"name": "more", "data": as_dicts(played("pendulum")), "quiet": True, "budget": "smoke", **arguments}
    with pytest.raises(Mistake, match=sentence):
        agent.learn(**given)
    assert agent.verify() == ["swing"]


def test_a_mistake_with_the_first_task_leaves_no_folder(agent):
    assert agent.tasks == []
    with pytest.raises(Mistake, match="there is no file or folder"):
        agent.learn("swing", "nowhere.npz", quiet=True)
    assert agent.preview("swing", as_dicts(played("pendulum"))).route["reason"] == "first task"
    assert not agent.path.exists()


def test_data_whose_environment_is_not_installed_is_learned_and_not_played(agent, monkeypatch):
    named = replace(read(as_dicts(played("pendulum"))), environment="Gone-v0")
    monkeypatch.setattr("holdfast.agent.own_task.read", lambda *_: named)
    learned = learn(agent, "swing", "pendulum")
    assert learned.played is None
    assert "Its environment Gone-v0 is not installed here, so the policy is not played." in learned.notes


def test_returns_have_the_size_that_the_learner_expects(tmp_path):
    agent = Agent(tmp_path / "agent", settings={**SETTINGS, "fit.return_scale": 50.0}, device="cpu")
    learned = learn(agent, "swing", "pendulum")
    largest = max(abs(np.cumsum(one.rewards[::-1])).max() for one in played("pendulum"))
    assert learned.record.reward_scale == pytest.approx(50 / largest)
    assert agent.policy("swing").policy.return_scale == pytest.approx(largest)


def test_a_name_is_learned_once_and_settings_stay(agent):
    learn(agent, "swing", "pendulum")
    with pytest.raises(Mistake, match="has already learned a task swing"):
        learn(agent, "swing", "pendulum")
    with pytest.raises(Mistake, match="is an agent with learner = affinity-l, not packnet"):
        Agent(agent.path, "packnet")
    with pytest.raises(Mistake, match="multitask learns all tasks at once"):
        learn(Agent(agent.path.parent / "other", "multitask"), "swing", "pendulum")


def test_the_command_line_learns_lists_and_verifies(tmp_path, capsys):
    data = write_npz(played("cartpole"), tmp_path)
    folder = str(tmp_path / "agent")
    assert Agent(folder, settings=SETTINGS, device="cpu").folder.store.learned == []  # creates it
    main(["agent", "list", folder])
    assert "has learned nothing yet" in capsys.readouterr().out
    main(["agent", "learn", folder, "balance", "--data", str(data), "--budget", "smoke", "--env", "CartPole-v1"])
    told = capsys.readouterr().out
    assert "learned      balance, from 3 episodes" in told
    assert "episodes in CartPole-v1" in told
    assert "certificate  1 task equal to the bit" in told
    main(["agent", "list", folder, "--json"])
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["task"], listed["copy"], listed["episodes"]) == ("balance", 0, 3)
    main(["agent", "preview", folder, "again", "--data", str(data)])
    told = capsys.readouterr().out
    assert "route        copy 0" in told
    assert re.search(r"^otherwise    about \d+\.\d\d MB in a new copy$", told, re.MULTILINE)
    main(["agent", "preview", folder, "again", "--data", str(data), "--json"])
    assert json.loads(capsys.readouterr().out)["alternative"].keys() == {"copy", "opened", "bytes"}
    main(["agent", "play", folder, "balance", "--episodes", "3", "--target", "5"])
    assert "mean return" in capsys.readouterr().out
    main(["agent", "history", folder])
    happened = capsys.readouterr().out
    assert [word in happened for word in ("began to learn balance", "1  learned balance", "played balance")] == [
        True
    ] * 3
    main(["agent", "doctor", "--data", str(data), "--env", "CartPole-v1"])
    assert "determinism" in capsys.readouterr().out
    main(["agent", "export", folder, "balance", "--to", str(tmp_path / "balance")])
    assert "folder" in capsys.readouterr().out
    main(["agent", "verify", folder])
    assert "every task is equal to the bit to its certificate: balance" in capsys.readouterr().out
    for words, sentence in (
        (["agent", "verify", str(tmp_path / "none")], "there is no agent in"),
        (["agent", "lern", folder], "did you mean learn"),
        (["agent", "play", folder, "nothing"], "has not learned nothing"),
        (["agent", "play", folder, "balance", "--episodes", "0"], "at least one episode is played"),
        (["agent", "learn", folder, "more", "--data", str(data), "--seed", "5"], "is an agent with seed = 0, not 5"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(words)
        assert stop.value.code == 2
        assert sentence in capsys.readouterr().err


def test_gymnasium_environments_are_the_users_own(agent):
    gymnasium.register("Mine-v0", entry_point=lambda: ENVIRONMENTS["dict"]())
    try:
        learned = learn(agent, "mine", "dict", env="Mine-v0")
        assert learned.played is not None
        assert learned.record.environment == "Mine-v0"
    finally:
        gymnasium.registry.pop("Mine-v0")


def test_a_history_with_events_of_another_kind_is_printed_or_refused_in_one_sentence(agent, capsys):
    learn(agent, "swing", "pendulum")
    log = agent.path / "events.jsonl"
    log.write_text(log.read_text() + json.dumps({"time": 1.0, "kind": "learn", "step": 0}) + "\n")
    main(["agent", "history", str(agent.path)])
    assert "began to learn ?" in capsys.readouterr().out
    log.write_text(log.read_text() + json.dumps({"time": 1.0, "kind": "play", "task": "swing"}) + "\n")
    with pytest.raises(SystemExit) as stop:
        main(["agent", "history", str(agent.path)])
    assert stop.value.code == 2
