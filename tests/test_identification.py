"""An agent recognises which of its tasks an episode belongs to, or says that it is none of these."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench import identification as bench

from holdfast.agent.agent import Agent
from holdfast.agent.identify import NO_SKETCH, kept_sketch
from holdfast.agent.sketch import PREFIXES, Sketch, largest, sketch_of
from holdfast.cli.main import main
from holdfast.data.episodes import Dataset, Episode
from holdfast.data.files import sealed, unsealed
from holdfast.errors import Mistake
from holdfast.tasks.recorded import read
from tests.recorded_data import ENVIRONMENTS, as_dicts, play
from tests.tiny import SMALL

KINDS = ["cartpole", "pendulum", "dict", "multi", "taxi", "images", "tuple"]
SETTINGS = {name: value for name, value in SMALL.items() if name.startswith(("net.", "fit."))}
LEARNING = {**SETTINGS, "fit.learning_rate": 0.03}
ACTIONS = {"left": 0, "right": 1}


def walks(count: int, seed: int, centre: float = 0.0, action: int = 0) -> list[dict[str, Any]]:
    """Episodes of random walks in the plane from around a centre, with one action all the time."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        steps = int(rng.integers(16, 24))
        path = centre + rng.normal(size=2) + 0.1 * rng.normal(size=(steps, 2)).cumsum(axis=0)
        found.append({"observations": path, "actions": np.full(steps, action), "rewards": np.ones(steps)})
    found[0]["actions"][0] = 1  # so that there are two actions
    return found


def agent_of(path: Path, **tasks: list[dict[str, Any]]) -> Agent:
    agent = Agent(path, settings=LEARNING, device="cpu")
    for name, data in tasks.items():
        agent.learn(name, data, budget="smoke", quiet=True)
    return agent


@pytest.fixture(scope="module")
def two_places(tmp_path_factory: pytest.TempPathFactory) -> Agent:
    """An agent with tasks of one interface in two places."""
    return agent_of(tmp_path_factory.mktemp("two") / "agent", here=walks(40, 0), there=walks(40, 1, centre=20.0))


def test_tasks_of_different_interfaces_are_told_apart(tmp_path):
    agent = Agent(tmp_path / "agent", settings=SETTINGS, device="cpu")
    assert agent.identify([np.zeros(4)]).reason.startswith("none of these: the agent has learned no task")
    for kind in KINDS:
        agent.learn(kind, as_dicts(play(ENVIRONMENTS[kind])), budget="smoke", quiet=True)
    policy = agent.policy()
    for kind in KINDS:
        env = ENVIRONMENTS[kind]()
        observation, _ = env.reset(seed=77)
        policy.reset()
        assert env.action_space.contains(policy.act(observation))
        assert policy.task == kind
        found = policy.identification
        assert {one.task for one in found.candidates} == set(KINDS)
        if kind not in ("cartpole", "multi"):  # both have four numbers
            assert [one.task for one in found.candidates if one.observations is not None] == [kind]
    assert agent.identify([observation]) == found


def test_text_in_an_observation_is_left_out_as_in_learning(tmp_path):
    def with_text(episode: dict[str, Any]) -> dict[str, Any]:
        seen = episode["observations"]
        return {**episode, "observations": {"at": seen, "mission": np.array(["go"] * len(seen))}}

    agent = agent_of(tmp_path / "agent", walk=[with_text(episode) for episode in walks(10, 0)])
    policy = agent.policy()
    policy.reset()
    assert policy.act({"at": np.zeros(2), "mission": "go"}) in (0, 1)
    assert policy.task == "walk"


@pytest.mark.parametrize("count", PREFIXES[:3])
def test_own_episodes_are_accepted_at_the_stated_rate_and_far_ones_never(count):
    def observations(seed: int, centre: float = 0.0) -> list[np.ndarray]:
        return [episode["observations"][:count] for episode in walks(400, seed, centre)]

    sketch = sketch_of(read(walks(400, 0)).dataset, 0)
    own = [sketch.likeness(found) for found in observations(1)]
    assert 0.97 <= np.mean(np.array(own) <= 1) < 1
    assert min(sketch.likeness(found) for found in observations(1, centre=20.0)) > 1


def test_a_limit_is_an_order_statistic_and_wider_where_there_are_few_values():
    values = [float(number) for number in np.random.default_rng(0).permutation(np.arange(1, 200))]
    assert largest(values) == 198.0  # the 198th of 199: a further value is as likely at each of 200 places
    assert largest(values[:99]) == max(values[:99])
    assert largest([3.0] * 4) == 6.0
    assert largest([]) == np.inf


def test_where_all_episodes_begin_alike_others_may_begin_as_any_observation():
    episodes = walks(200, 0)
    for episode in episodes:
        episode["observations"] = episode["observations"] - episode["observations"][0]
    sketch = sketch_of(read(episodes[:20]).dataset, 0)
    assert sketch.likeness(np.zeros((1, 2), np.float32)) == 0
    later = [sketch.likeness(episode["observations"][8:9]) for episode in episodes[20:]]
    assert np.mean(np.array(later) <= 1) > 0.97
    assert sketch.likeness(np.full((1, 2), 5.0, np.float32)) > 1


def test_of_a_stack_of_frames_the_newest_one_is_compared():
    frames = np.random.default_rng(0).integers(0, 255, (40, 40, 40)).astype(np.uint8)
    dataset = Dataset(frames, np.zeros(40, int), np.zeros(40, np.float32), np.array([20, 20]), stack=4)
    sketch = sketch_of(dataset, 0)
    begun, black = frames[16:20][None], frames[16:20][None].copy()
    black[:, :3] = 0
    assert sketch.likeness(black) == sketch.likeness(begun) == 0


def test_an_unnamed_policy_acts_exactly_as_that_of_the_task(two_places):
    unnamed = two_places.policy()
    for name, centre in (("here", 0.0), ("there", 20.0)):
        episode = walks(1, 5, centre)[0]
        named = two_places.policy(name)
        for policy in (unnamed, named):
            policy.reset()
        assert unnamed.task is None
        for observation in episode["observations"]:
            assert unnamed.act(observation, 1.0) == named.act(observation, 1.0)
        assert unnamed.task == name


def test_several_episodes_are_stepped_together_by_the_policy_of_the_first_one(two_places):
    policy = two_places.policy()
    policy.reset(3)
    observations = np.stack([episode["observations"][0] for episode in walks(3, 6, 20.0)])
    assert policy.act(observations, np.zeros(3)).shape == (3,)
    assert policy.task == "there"


def test_what_is_like_no_task_is_refused_in_a_sentence(two_places):
    policy = two_places.policy()
    with pytest.raises(Mistake, match="must be reset"):
        policy.act(np.zeros(2))
    policy.reset()
    with pytest.raises(Mistake, match="none of these: the nearest is"):
        policy.act(np.array([0.0, 20.0]))
    assert policy.task is None
    with pytest.raises(Mistake, match=r"none of these: here cannot be compared .*shape"):
        policy.act(np.zeros(3))
    with pytest.raises(Mistake, match="finite"):
        policy.act(np.array([0.0, np.nan]))
    assert policy.act(np.zeros(2)) in (0, 1)
    with pytest.raises(Mistake, match="name the task"):
        two_places.policy(target=3.0)
    with pytest.raises(Mistake, match="same shape at every step"):
        two_places.identify([np.zeros(2), np.zeros(3)])
    for nothing in ([], np.zeros((0, 2)), np.float32(0)):
        with pytest.raises(Mistake, match="at least one observation"):
            two_places.identify(nothing)


def test_the_decision_does_not_depend_on_the_order_in_which_tasks_were_learned(two_places, tmp_path):
    turned = agent_of(tmp_path / "agent", there=walks(40, 1, centre=20.0), here=walks(40, 0))
    for seed, centre in ((2, 0.0), (3, 20.0), (4, 9.0), (5, 60.0)):
        observations = walks(1, seed, centre)[0]["observations"]
        assert two_places.identify(observations) == turned.identify(observations)
    learners = [agent._learner() for agent in (two_places, turned)]
    for name in ("here", "there"):
        first, second = (kept_sketch(learner, name) for learner in learners)
        for field in ("points", "shift", "scale", "limits"):
            assert np.array_equal(getattr(first, field), getattr(second, field))


def test_where_observations_are_the_same_the_actions_tell_tasks_apart(tmp_path):
    data = {name: walks(40, action, action=action) for name, action in ACTIONS.items()}
    agent = agent_of(tmp_path / "agent", **data)
    for name, action in ACTIONS.items():
        for episode in walks(5, 9, action=action)[1:]:
            found = agent.identify(episode["observations"], episode["actions"], episode["rewards"])
            assert found.task == name
            assert agent.identify(episode["observations"], episode["actions"]).task == name  # rewards are not needed
        alternating = np.arange(len(episode["actions"])) % 2
        assert agent.identify(episode["observations"], alternating).task is None
        without = agent.identify(episode["observations"])
        assert all(one.accepted and one.actions is None for one in without.candidates)


def test_every_episode_of_a_dataset_has_a_vote(two_places, tmp_path, capsys):
    def written(name: str, episodes: list[dict[str, Any]]) -> str:
        arrays = {key: np.concatenate([episode[key] for episode in episodes]) for key in episodes[0]}
        ends = np.concatenate([np.arange(len(one["rewards"])) == len(one["rewards"]) - 1 for one in episodes])
        np.savez(tmp_path / name, **arrays, terminals=ends, timeouts=np.zeros_like(ends))
        return str(tmp_path / name)

    def asked(data: str, *flags: str) -> str:
        main(["agent", "identify", str(two_places.path), "--data", data, *flags])
        return capsys.readouterr().out

    found = json.loads(asked(written("there.npz", walks(6, 7, centre=20.0)), "--json"))
    assert found["task"] == "there"
    assert found["episodes"] == sum(found["votes"].values()) == 6
    assert [one["task"] for one in found["candidates"]] == ["here", "there"]
    far = written("far.npz", walks(6, 7, centre=200.0))
    assert json.loads(asked(far, "--json"))["task"] is None
    assert asked(far).startswith("none of these: 6 of 6 episodes\n")


def test_tasks_without_a_sketch_are_said_not_to_be_recognised(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("holdfast.agent.learning.keep_sketch", lambda *_: None)  # as versions before did
        agent = agent_of(tmp_path / "agent", old=walks(4, 0))
    agent.learn("single", walks(1, 0), budget="smoke", quiet=True)
    found = agent.identify(np.zeros((1, 2)))
    assert found.task is None
    assert [(one.task, one.reason) for one in found.candidates] == [("old", NO_SKETCH), ("single", NO_SKETCH)]


def test_a_sketch_is_small_and_a_forged_one_is_refused():
    rng = np.random.default_rng(0)
    for shape in ((2,), (30,), (5_000,), (4, 84, 84), (1, 40, 36), (3, 36, 200)):
        pixels = len(shape) == 3
        seen = rng.integers(0, 255, (40, *shape)).astype(np.uint8 if pixels else np.float32)
        dataset = Dataset.of(
            [Episode(part, np.zeros(len(part), int), np.zeros(len(part))) for part in (seen[:20], seen[20:])]
        )
        tensors = sketch_of(dataset, 0).tensors()
        assert sum(tensor.nbytes for tensor in tensors.values()) < 36_000
        assert Sketch.read(tensors).likeness(seen[:1]) == 0
    for name, forged in (
        ("points", tensors["points"][:, :5]),
        ("points", tensors["points"].double().bfloat16()),
        ("points", tensors["points"].int()),
        ("scale", 0 * tensors["scale"]),
        ("limits", float("nan") * tensors["limits"]),
    ):
        with pytest.raises(Mistake, match="damaged"):
            Sketch.read({**tensors, name: forged})
    with pytest.raises(Mistake, match="damaged"):
        Sketch.read({"points": tensors["points"]})
    with pytest.raises(Mistake, match="damaged"):
        Sketch.read(tensors).likeness(np.zeros((1, 7), np.float32))


def test_a_pack_takes_the_sketch_along_and_one_with_a_forged_sketch_is_refused(two_places, tmp_path):
    two_places.pack("here", tmp_path / "here.pack")
    other = Agent(tmp_path / "other", settings=LEARNING, device="cpu")
    other.install(tmp_path / "here.pack")
    observations = walks(2, 8)[1]["observations"]
    assert other.identify(observations).candidates == two_places.identify(observations).candidates[:1]
    tensors = unsealed((tmp_path / "here.pack").read_bytes())
    tensors["kept/sketch/points"] = tensors["kept/sketch/points"][:, :1]
    (tmp_path / "forged.pack").write_bytes(sealed(tensors))
    with pytest.raises(Mistake, match=r"sketch .* damaged"):
        other.install(tmp_path / "forged.pack", "forged")


def test_a_confusion_matrix_counts_every_episode_also_for_an_agent_without_the_task(two_places, capsys):
    sets = {
        name: [bench.Recorded(**one) for one in walks(4, 9, centre)]
        for name, centre in (("here", 0.0), ("there", 20.0), ("far", 200.0))
    }
    bench.print_matrix(two_places, sets, bench.FIRST)
    rows = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines() if line.startswith("|")][2:]
    counts = {name.strip(): [int(cell.strip() or 0) for cell in cells] for name, *cells in rows}
    assert {sum(row) for row in counts.values()} == {4}
    assert [counts["here"][0], counts["there"][1], counts["far"][2]] == [4, 4, 4]
    assert counts["here, not learned"] == counts["there, not learned"] == [0, 0, 4]
