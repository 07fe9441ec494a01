"""A user's own data becomes the same dataset from whatever it is read, with the spaces that it has."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from holdfast.data.action_layouts import CombinedActions, DiscreteActions, ScaledActions
from holdfast.data.episodes import Dataset, Episode
from holdfast.data.layout import Layout
from holdfast.errors import Mistake
from holdfast.tasks.interface import Continuous, Discrete
from holdfast.tasks.recorded import Recorded, defaults_from, held_out, read
from tests.recorded_data import (
    ENVIRONMENTS,
    Spaces,
    as_dicts,
    flat,
    play,
    write_d4rl,
    write_lerobot,
    write_minari,
    write_npz,
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for data, which is also where Minari keeps its datasets."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return tmp_path


def expect_same(first: Recorded, second: Recorded) -> None:
    for name in ("observations", "actions", "rewards", "lengths"):
        one, other = getattr(first.dataset, name), getattr(second.dataset, name)
        assert one.dtype == other.dtype, name
        np.testing.assert_array_equal(one, other)
    assert first.interface == second.interface
    assert first.layout == second.layout
    assert first.fingerprint == second.fingerprint


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_format_gives_the_same_bits(name: str, place: Path) -> None:
    env = ENVIRONMENTS[name]()
    played = play(ENVIRONMENTS[name])
    expected = read(as_dicts(played), env)
    written: dict[str, Any] = {
        "hdf5": write_minari(played, place, env, "hdf5", jpeg_encoding=False),
        "arrow": write_minari(played, place, env, "arrow", jpeg_encoding=False),
        "parquet": write_minari(played, place, env, "parquet", jpeg_encoding=False),
    }
    if name != "tuple":
        written |= {"npz": write_npz(played, place), "d4rl": write_d4rl(played, place)}
    if name in ("cartpole", "pendulum", "multi", "taxi"):
        written |= {"lerobot2": write_lerobot(played, place, 2), "lerobot3": write_lerobot(played, place, 3)}
    for where in written.values():
        expect_same(read(where, env), expected)
    for minari in ("own/hdf5-v0", "own/arrow-v0", "own/parquet-v0"):
        got = read(minari)  # the spaces in its metadata are those of the environment
        expect_same(got, expected)
        assert got.seeds == (0, 1, 2)
        assert got.environment == (env.spec.id if env.spec else None)


def test_a_dataset_and_its_episodes_are_read_as_they_are() -> None:
    episodes = [Episode(np.ones((3, 2), np.float32), np.array([0, 1, 0]), np.arange(3.0)) for _ in range(2)]
    dataset = Dataset.of(episodes)
    expect_same(read(dataset), read(episodes))
    assert read(iter(episodes)).dataset.fingerprint == read(dataset).dataset.fingerprint


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_decoded_actions_are_the_recorded_ones_and_their_environment_takes_them(name: str) -> None:
    env, played = ENVIRONMENTS[name](), play(ENVIRONMENTS[name])
    data = read(as_dicts(played), env)
    actions = np.concatenate([episode.actions for episode in played])
    decoded = data.layout.decode_actions(data.dataset.actions)
    np.testing.assert_allclose(decoded, actions, rtol=1e-6, atol=1e-6)
    assert env.action_space.contains(data.layout.decode_action(data.dataset.actions[0]))
    one = data.layout.encode_action(played[0].actions[0])
    np.testing.assert_array_equal(one, data.dataset.actions[0])
    observation, _ = env.reset(seed=0)
    np.testing.assert_array_equal(data.layout.encode_observation(observation), data.dataset.observations[0])


def test_spaces_become_these_interfaces() -> None:
    found = {name: read(as_dicts(play(make)), make()) for name, make in ENVIRONMENTS.items()}
    shapes = {name: (data.interface.observation, data.interface.actions) for name, data in found.items()}
    assert shapes == {
        "cartpole": ((4,), Discrete(2, 2)),
        "pendulum": ((3,), Continuous(1, 1)),
        "dict": ((8,), Continuous(2, 2)),
        "tuple": ((8,), Discrete(3, 3)),
        "multi": ((4,), Discrete(24, 24)),
        "taxi": ((50,), Discrete(6, 6)),
        "minigrid": ((147,), Discrete(4, 4)),
        "images": ((3, 40, 36), Discrete(4, 4)),
    }
    assert not found["images"].interface.normalised
    assert found["images"].dataset.observations.dtype == np.uint8
    assert found["dict"].layout.columns == {"arm.grip": (0, 3), "arm.joint": (3, 6), "speed": (6, 8)}
    assert found["taxi"].dataset.observations.sum(axis=1).tolist() == [1.0] * found["taxi"].dataset.steps


def test_pendulums_actions_are_scaled_by_the_bounds_of_its_space() -> None:
    data = read(as_dicts(play(ENVIRONMENTS["pendulum"])), ENVIRONMENTS["pendulum"]())
    assert data.layout.actions == ScaledActions((1,), "float32", (-2.0,), (2.0,))
    assert data.layout.decode_action(np.array([0.5])) == np.array([1.0], np.float32)
    assert data.layout.decode_action(np.array([7.0])) == np.array([2.0], np.float32)  # clipped


def test_bounds_that_nobody_declares_are_those_of_the_data_and_that_is_said() -> None:
    actions = np.array([[-3.0, 7.0], [5.0, 7.0], [1.0, 7.0]])
    data = read([{"observations": np.ones((3, 2)), "actions": actions, "rewards": np.ones(3)}])
    assert data.layout.actions == ScaledActions((2,), "float64", (-3.0, 7.0), (5.0, 7.0))
    np.testing.assert_array_equal(data.dataset.actions, np.array([[-1, 0], [1, 0], [0, 0]], np.float32))
    np.testing.assert_array_equal(data.layout.decode_actions(data.dataset.actions), actions)
    assert "bounds of the actions are not known" in data.notes[0]


def test_infinite_bounds_are_replaced_one_by_one_and_actions_outside_are_clipped() -> None:
    space = gymnasium.spaces.Box(np.array([-1.0, -np.inf]), np.array([1.0, np.inf]), dtype=np.float64)
    env = _with_spaces(gymnasium.spaces.Box(0, 1, (2,)), space)
    actions = np.array([[0.5, 10.0], [2.0, 30.0]])
    data = read([{"observations": np.ones((2, 2)), "actions": actions, "rewards": np.ones(2)}], env)
    np.testing.assert_array_equal(data.dataset.actions, np.array([[0.5, -1], [1, 1]], np.float32))
    assert any("dimensions [1]" in note for note in data.notes)
    assert any("50.0% of the recorded actions" in note for note in data.notes)


def _with_spaces(observation: gymnasium.Space, action: gymnasium.Space) -> Any:
    from tests.recorded_data import Spaces

    return Spaces(observation, action)


def test_integers_without_a_declared_space_are_discrete() -> None:
    episode = {"observations": np.array([3, 0, 9]), "actions": np.array([2, 0, 1]), "rewards": np.ones(3)}
    data = read([episode])
    assert data.layout.actions == DiscreteActions(3)
    assert data.interface.observation == (10,)
    data = read([{**episode, "actions": np.array([[1, 0], [0, 2], [0, 0]])}])
    assert data.layout.actions == CombinedActions((2,), (2, 3), (0, 0))
    assert [note.split(" are ")[0] for note in data.notes] == ["The observations", "The actions"]


def test_missing_rewards_are_zeros_and_that_is_said(place: Path) -> None:
    arrays = flat(play(ENVIRONMENTS["cartpole"]))
    del arrays["rewards"]
    np.savez(place / "data.npz", **arrays)
    data = read(place / "data.npz")
    assert not data.has_rewards
    assert not data.dataset.rewards.any()
    assert any("There are no rewards" in note for note in data.notes)
    defaults = defaults_from(data.dataset)
    assert (defaults.return_scale, defaults.target, defaults.horizon) == (1.0, 0.0, data.interface.horizon)


def test_transitions_without_an_end_are_one_episode_and_that_is_said(place: Path) -> None:
    np.savez(place / "data.npz", observations=np.ones((9, 2)), actions=np.zeros(9, int), rewards=np.ones(9))
    data = read(str(place / "data.npz"))
    assert data.dataset.lengths.tolist() == [9]
    assert any("one episode" in note for note in data.notes)


def test_minaris_jpegs_are_decoded_as_minari_does(place: Path) -> None:
    import minari

    env, played = ENVIRONMENTS["images"](), play(ENVIRONMENTS["images"])
    for form in ("hdf5", "arrow"):
        write_minari(played, place, env, form)
        seen = [episode.observations[:-1] for episode in minari.load_dataset(f"own/{form}-v0").iterate_episodes()]
        np.testing.assert_array_equal(
            read(f"own/{form}-v0").dataset.observations, np.moveaxis(np.concatenate(seen), -1, 1)
        )


def test_lerobots_videos_are_left_out_and_that_is_said(place: Path) -> None:
    data = read(write_lerobot(play(ENVIRONMENTS["pendulum"]), place))
    assert any("observation.images.top was left out" in note for note in data.notes)


def test_an_image_beside_numbers_is_left_out_and_that_is_said() -> None:
    frames = np.zeros((3, 40, 40, 3), np.uint8)
    observations = {"camera": frames, "state": np.ones((3, 2))}
    data = read([{"observations": observations, "actions": np.zeros(3, int), "rewards": np.ones(3)}])
    assert data.interface.observation == (2,)
    assert any("camera was left out" in note for note in data.notes)


def with_text(read_from: Path, how: str) -> tuple[Any, gymnasium.Env]:
    """Episodes whose observations have a text, in a form that can be read, and their environment."""
    space = spaces.Dict({"mission": spaces.Text(8, charset="abc"), "state": spaces.Box(-1, 1, (2,), np.float32)})
    env = Spaces(space, spaces.Discrete(3))
    steps = [env.reset(seed=seed)[0] for seed in range(4)]
    state, mission = np.stack([one["state"] for one in steps]), np.array([one["mission"] for one in steps])
    episode = {"actions": np.arange(4) % 3, "rewards": np.ones(4)}
    if how == "npz":
        np.savez(read_from / "a.npz", **{"observations/state": state, "observations/mission": mission}, **episode)
        return read_from / "a.npz", env
    observations = {"steps": steps, "columns": {"state": state, "mission": mission.tolist()}}[how]
    return [{"observations": observations, **episode}], env


@pytest.mark.parametrize("how", ["npz", "steps", "columns"])
def test_a_text_beside_numbers_is_left_out_and_that_is_said_once(how: str, tmp_path: Path) -> None:
    where, env = with_text(tmp_path, how)
    for data in (read(where), read(where, env)):
        assert data.interface.observation == (2,)
        assert len([note for note in data.notes if "text mission was left out" in note]) == 1
        assert data.layout.encode_observation(env.reset(seed=0)[0]).shape == (2,)


def test_minaris_texts_are_left_out(place: Path) -> None:
    _, env = with_text(place, "steps")
    played = play(lambda: env, 2)
    for episode in played:
        episode.observations["mission"] = episode.observations["mission"].tolist()  # as Minari stores texts
    data = read(write_minari(played, place, env, "hdf5"))
    assert data.interface.observation == (2,)
    assert any("text mission was left out" in note for note in data.notes)


def test_the_record_of_a_layout_is_plain_and_reads_back() -> None:
    import json

    for make in ENVIRONMENTS.values():
        layout = read(as_dicts(play(make, 1)), make()).layout
        assert Layout.read(json.loads(json.dumps(layout.record()))) == layout


def _episode(**arrays: Any) -> list[dict[str, Any]]:
    return [{"observations": np.ones((3, 2)), "actions": np.zeros(3, int), "rewards": np.ones(3), **arrays}]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (
            lambda: _episode(observations=np.array([[1, 2], [1, np.nan], [0, 0]])),
            "step 1 of episode 0, column 1 is nan",
        ),
        (lambda: _episode(rewards=np.array([1, np.inf, 0])), "rewards must be finite numbers, but step 1"),
        (lambda: _episode(actions=np.full((3, 2), np.nan)), "actions must be finite"),
        (lambda: _episode(observations=np.full((3, 2), 1e300)), "must be finite"),
        (list, "no episodes"),
        (lambda: _episode(rewards=np.ones(2)), "3 actions but 2 rewards"),
        (lambda: _episode(observations=np.ones((7, 2))), "7 observations and 3 actions"),
        (lambda: _episode(actions={"left": np.zeros(3)}), "dictionaries, tuples or texts cannot be learned"),
        (lambda: _episode(actions=np.array([[40, 0], [0, 40], [0, 0]])), "1,681 combinations"),
        (lambda: _episode(actions=np.arange(3) * 1000), "too many"),
        (lambda: _episode(observations=np.zeros((3, 64, 64, 3))), "must be uint8"),
        (lambda: _episode(observations=np.array(["a", "b", "c"])), "must be numbers"),
        (lambda: [*_episode(), *_episode(observations=np.ones((3, 5)))], "same shape"),
        (lambda: [*_episode(), *_episode(observations={"a": np.ones((3, 2))})], "same structure"),
        (lambda: [*_episode(), *_episode(rewards=None)], "episode 1 has no rewards"),
        (lambda: [3], "an episode must be"),
        (lambda: 3, "data must be"),
        (lambda: "no/such-v0", "minari download no/such-v0"),
        (lambda: "../../x", "no file or folder"),
        (lambda: "a\0b", "no file or folder"),
    ],
)
def test_a_mistake_in_the_data_is_one_sentence(where: Callable[[], Any], said: str) -> None:
    with pytest.raises(Mistake) as caught:
        read(where())
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_raw_observation_of_another_structure_is_one_sentence() -> None:
    layout = read(as_dicts(play(ENVIRONMENTS["dict"], 1)), ENVIRONMENTS["dict"]()).layout
    for raw, said in [
        ({"speed": np.ones(2)}, "arm.grip is missing"),
        (np.ones(8), "a dictionary with the key 'arm' is expected"),
        ({"speed": np.ones(2), "arm": {"joint": np.ones(3), "grip": 3}}, "must be one of 0..2"),
        ({"speed": np.ones(3), "arm": {"joint": np.ones(3), "grip": 1}}, "must have shape (2,)"),
        ({"speed": "fast", "arm": {"joint": np.ones(3), "grip": 1}}, "must be numbers"),
    ]:
        with pytest.raises(Mistake) as caught:
            layout.encode_observation(raw)
        assert said in str(caught.value)


def test_whole_episodes_are_held_out_by_seed() -> None:
    episodes = [Episode(np.full((n + 1, 1), float(n)), np.zeros(n + 1, int), np.ones(n + 1)) for n in range(20)]
    dataset = Dataset.of(episodes)
    kept, out = held_out(dataset, seed=3)
    assert out is not None
    assert (len(kept), len(out)) == (18, 2)
    assert sorted([*kept.lengths.tolist(), *out.lengths.tolist()]) == dataset.lengths.tolist()
    assert held_out(dataset, seed=3)[1].fingerprint == out.fingerprint
    assert len({tuple(held_out(dataset, seed)[1].lengths) for seed in range(10)}) > 5
    for count in (2, 3):
        kept, out = held_out(dataset.take(range(count)), seed=0)
        assert out is not None
        assert (len(kept), len(out)) == (count - 1, 1)
    assert held_out(dataset.take([4]), seed=0)[1] is None


def test_scale_horizon_and_target_follow_from_the_data() -> None:
    episodes = [Episode(np.ones((n, 1)), np.zeros(n, int), np.full(n, -2.0)) for n in range(1, 12)]
    defaults = defaults_from(Dataset.of(episodes))
    assert (defaults.return_scale, defaults.horizon, defaults.target) == (22.0, 11, -4.0)
    assert defaults_from(Dataset.of(episodes), quantile=1.0).target == -2.0
