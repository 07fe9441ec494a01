"""An exported policy acts as the policy does: as an ONNX graph, as a program of torch.export, and in a folder."""

import json
import sys
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from safetensors.torch import load

from holdfast.agent.agent import Agent
from holdfast.agent.export import export
from holdfast.agent.exported_folder import load_exported
from holdfast.agent.layout_modules import LayoutEncoder, action_decoder
from holdfast.agent.raw_policy import RawPolicy
from holdfast.agent.step import Step
from holdfast.data.action_layouts import CombinedActions, DiscreteActions, ScaledActions
from holdfast.data.files import packed
from holdfast.data.layout import Layout
from holdfast.data.normaliser import Normaliser
from holdfast.data.observation_parts import Frames, Numbers, OneHot
from holdfast.errors import Mistake
from holdfast.evaluation.certificates import fingerprint
from holdfast.learners.learner import new_net
from holdfast.nets.backbone import NetConfig
from holdfast.nets.mlp import Mlp, MlpConfig
from holdfast.nets.policy import Policy
from holdfast.nets.transformer import DtConfig
from holdfast.registry import SUITES
from holdfast.tasks.interface import Continuous, Discrete, Interface
from holdfast.tasks.suite import suite
from tests.recorded_data import ENVIRONMENTS, as_dicts, play
from tests.tiny import ALL, tiny_learner, tiny_suite

CONTEXT = 4
NETS: dict[str, NetConfig] = {
    "dt": DtConfig(width=16, layers=2, heads=2, context=CONTEXT),
    "mlp": MlpConfig(width=16, layers=2),
}
STEPS = 2 * CONTEXT + 1  # an episode fills the context and goes on
PLAIN = Interface((4,), Continuous(2, 3), 20)
Game = list[tuple[Any, float]]  # the observations and rewards of an episode


def policy_for(interface: Interface, net: NetConfig, zeros: float = 0.0, seed: int = 0) -> Policy:
    """A policy with random weights, of which a share is zero."""
    generator = torch.Generator().manual_seed(seed)
    built = new_net(net, interface, seed)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
            parameter[torch.rand(parameter.shape, generator=generator) < zeros] = 0.0
    normaliser = Normaliser.identity()
    if interface.normalised:
        shift, scale = (torch.rand(interface.observation, generator=generator) for _ in range(2))
        normaliser = Normaliser(shift, scale + 0.5)
    return Policy(built, normaliser, 3.7, 11.0)


def random_game(interface: Interface, seed: int) -> Game:
    """Observations and rewards of an episode that nothing has played."""
    rng = np.random.default_rng(seed)
    game: Game = []
    for _ in range(min(STEPS, interface.horizon)):
        if len(interface.observation) == 3:
            observation = rng.integers(0, 256, interface.observation, np.uint8)
        else:
            observation = rng.normal(size=interface.observation).astype(np.float32)
        game.append((observation, float(rng.normal())))
    return game


def learned_policy(suite_name: str, learner: str, backbone: str, **settings: Any) -> tuple[Policy, list[Game]]:
    """The policy of a second task, and its two longest recorded episodes."""
    found = tiny_suite(suite_name, 2)
    agent = tiny_learner(learner, found, backbone=backbone, fit__steps=3, **settings)
    agent.learn_all(found.tasks, {task.name: task.dataset for task in found.tasks}.__getitem__)
    task = found.tasks[1]
    longest = np.argsort(-task.dataset.lengths)[:2]
    episodes = [task.dataset.episode(int(number)) for number in longest]
    games = [list(zip(one.observations, [0.0, *one.rewards[:-1].tolist()], strict=True)) for one in episodes]
    return agent.policy(task.name), games


def rows_of(observation: Any) -> dict[str, np.ndarray]:
    """One observation, or its parts, as the inputs of a graph."""
    if isinstance(observation, dict | tuple):
        return {f"observation.{name}": np.asarray(value)[None] for name, value in flat_names(observation).items()}
    return {"observation": np.asarray(observation)[None]}


def played(policy: Policy | RawPolicy, games: list[Game]) -> list[Any]:
    """What a policy does in these episodes."""
    actions = []
    for game in games:
        policy.reset()
        actions += [policy.act(observation, reward) for observation, reward in game]
    return actions


def played_by_onnx(path: Path, games: list[Game]) -> list[np.ndarray]:
    """What an ONNX file does in them."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    start = json.loads(session.get_modelmeta().custom_metadata_map["start"])
    actions = []
    for game in games:
        state = {name: np.full(one["shape"], one["value"], one["dtype"]) for name, one in start.items()}
        for observation, reward in game:
            action, *following = session.run(None, {**rows_of(observation), "reward": np.array([reward]), **state})
            state = dict(zip(state, following, strict=True))
            actions.append(action[0])
    return actions


def played_by_torch(path: Path, games: list[Game]) -> list[np.ndarray]:
    """What a program of torch.export does in them."""
    extra = {"start.json": ""}
    step = torch.export.load(path, extra_files=extra).module()
    actions = []
    for game in games:
        state = {
            name: torch.full(one["shape"], one["value"], dtype=getattr(torch, one["dtype"]))
            for name, one in json.loads(extra["start.json"]).items()
        }
        for observation, reward in game:
            inputs = {name: torch.as_tensor(value) for name, value in rows_of(observation).items()}
            inputs["reward"] = torch.tensor([reward], dtype=torch.float64)
            action, state = step(inputs, state)
            actions.append(action[0].numpy())
    return actions


def assert_same(found: list[Any], expected: list[Any]) -> None:
    """The same discrete actions, and continuous ones within 1e-5."""
    for one, other in zip(found, expected, strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)
        else:
            np.testing.assert_array_equal(one, other)


def assert_graphs_act_as(policy: Policy | RawPolicy, games: list[Game], folder: Path) -> None:
    """Both graphs of a policy do what it does."""
    given = (policy.policy, policy.layout) if isinstance(policy, RawPolicy) else (policy, None)
    expected = played(policy, games)
    for name, played_by in (("policy.onnx", played_by_onnx), ("policy.pt2", played_by_torch)):
        written = export(given[0], folder / name, given[1])
        assert written.bytes == (folder / name).stat().st_size
        assert_same(played_by(folder / name, games), expected)


@pytest.mark.parametrize("backbone", NETS)
@pytest.mark.parametrize("learner", ["naive", "affinity-h"])
@pytest.mark.parametrize("name", ["toy", "toy-continuous"])
def test_graphs_act_as_a_learned_policy_in_recorded_episodes(
    name: str, learner: str, backbone: str, tmp_path: Path
) -> None:
    policy, games = learned_policy(name, learner, backbone)
    assert len(games[0]) > CONTEXT
    assert_graphs_act_as(policy, games, tmp_path)


@pytest.mark.parametrize(("learner", "settings"), [("lora", {}), ("naive", {"task_id": True})])
def test_graphs_of_an_adapted_network_and_of_one_that_is_told_its_task_act_as_they_do(
    learner: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    policy, games = learned_policy("toy-continuous", learner, "mlp", **settings)
    assert_graphs_act_as(policy, games, tmp_path)


INTERFACES = {suite(name).tasks[0].interface: name for name in reversed(list(SUITES))}  # one suite for each


@pytest.mark.parametrize("backbone", NETS)
@pytest.mark.parametrize("name", [name for name in INTERFACES.values() if not name.startswith("toy")])
def test_graphs_act_as_a_policy_in_every_suite(name: str, backbone: str, tmp_path: Path) -> None:
    interface = suite(name).tasks[0].interface
    games = [random_game(interface, seed) for seed in range(2)]
    assert_graphs_act_as(policy_for(interface, NETS[backbone], zeros=0.5), games, tmp_path)


def test_one_graph_acts_in_several_episodes_at_once(tmp_path: Path) -> None:
    policy = policy_for(PLAIN, NETS["dt"])
    export(policy, tmp_path / "policy.onnx", rows=3)
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx", providers=["CPUExecutionProvider"])
    start = json.loads(session.get_modelmeta().custom_metadata_map["start"])
    state = {name: np.full(one["shape"], one["value"], one["dtype"]) for name, one in start.items()}
    rng = np.random.default_rng(0)
    policy.reset(3)
    for _ in range(STEPS):
        observations, rewards = rng.normal(size=(3, 4)).astype(np.float32), rng.normal(size=3)
        action, *following = session.run(None, {"observation": observations, "reward": rewards, **state})
        state = dict(zip(state, following, strict=True))
        np.testing.assert_allclose(action, policy.act(observations, rewards), rtol=0, atol=1e-5)


# Layouts of a user's own data

VECTOR = Layout(
    (Numbers(("arm", "joints"), (2, 2)), OneHot(("door",), (), (3,), (-1,)), OneHot(("keys",), (2,), (2, 3), (0, 5))),
    ScaledActions((2, 1), "float32", (-2.0, 0.0), (2.0, 10.0)),
)
PICTURE = Layout((Frames((), (40, 36, 3)),), CombinedActions((3,), (2, 3, 2), (0, 1, -1)))


def raw_vector(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "arm": {"joints": rng.normal(size=(2, 2)).astype(np.float32)},
        "door": int(rng.integers(-1, 2)),
        "keys": rng.integers([0, 5], [2, 8]),
    }


def flat_names(raw: Any, before: str = "") -> dict[str, Any]:
    """The parts of nested dictionaries and tuples by their dotted names."""
    if not isinstance(raw, dict | tuple):
        return {before[:-1]: raw}
    found = {}
    for name, value in raw.items() if isinstance(raw, dict) else enumerate(raw):
        found |= flat_names(value, f"{before}{name}.")
    return found


def test_graphs_act_from_raw_dictionaries_to_actions_in_their_own_bounds(tmp_path: Path) -> None:
    policy = RawPolicy(policy_for(Interface(VECTOR.observation, Continuous(2, 2), 20), NETS["dt"]), VECTOR)
    rng = np.random.default_rng(0)
    games = [[(raw_vector(rng), 0.5) for _ in range(STEPS)]]
    assert_graphs_act_as(policy, games, tmp_path)


def test_graphs_act_from_images_with_their_channels_last_to_several_integers(tmp_path: Path) -> None:
    interface = Interface(PICTURE.observation, Discrete(12, 12), 20, normalised=False)
    policy = RawPolicy(policy_for(interface, NETS["mlp"]), PICTURE)
    rng = np.random.default_rng(0)
    games = [[(rng.integers(0, 256, (40, 36, 3), np.uint8), 0.5) for _ in range(STEPS)]]
    assert_graphs_act_as(policy, games, tmp_path)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8", "int32", "int64"])
def test_continuous_actions_are_decoded_to_the_same_numbers(dtype: str) -> None:
    actions = ScaledActions((3,), dtype, (0.0, 1.0, 5.0), (10.0, 1.0, 6.0))
    given = np.random.default_rng(0).uniform(-1.5, 1.5, (500, 3)).astype(np.float32)
    found = action_decoder(actions)(torch.as_tensor(given)).numpy()
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found, actions.decode(given))


@pytest.mark.parametrize("actions", [DiscreteActions(5, -2), PICTURE.actions])
def test_every_discrete_action_is_decoded_to_the_same_integers(actions: Any) -> None:
    given = np.arange(actions.count)
    found = action_decoder(actions)(torch.as_tensor(given)).numpy()
    np.testing.assert_array_equal(found, actions.decode(given))


def test_parts_of_observations_are_encoded_to_the_same_columns() -> None:
    rng = np.random.default_rng(0)
    encoder = LayoutEncoder(VECTOR, "observation")
    for _ in range(50):
        raw = raw_vector(rng)
        inputs = {f"observation.{name}": torch.as_tensor(value)[None] for name, value in flat_names(raw).items()}
        np.testing.assert_array_equal(encoder(inputs)[0].numpy(), VECTOR.encode_observation(raw))


@pytest.mark.parametrize("kind", sorted(ENVIRONMENTS))
def test_what_an_agent_exports_acts_as_its_policy_on_raw_episodes_of_every_space(kind: str, tmp_path: Path) -> None:
    episodes = play(ENVIRONMENTS[kind])
    settings = {"net.width": 16, "net.layers": 1, "net.context": CONTEXT, "fit.steps": 3, "fit.batch": 8}
    agent = Agent(tmp_path / "agent", settings=settings, device="cpu")
    agent.learn("Task", as_dicts(episodes), budget="smoke", quiet=True)
    games: list[Game] = []
    for episode in episodes[:2]:
        rewards = [0.0, *episode.rewards[:-1].tolist()]
        games.append([(row(episode.observations, step), reward) for step, reward in enumerate(rewards)])
    expected = played(agent.policy("Task"), games)
    agent.export("Task", tmp_path / "policy.onnx")
    assert_same(played_by_onnx(tmp_path / "policy.onnx", games), expected)
    agent.export("Task", tmp_path / "policy")
    assert np.array_equal(played(load_exported(tmp_path / "policy"), games), expected)


def row(observations: Any, step: int) -> Any:
    """The raw observation of one step; images of few pixels and other numbers are what a graph takes as float32."""
    if isinstance(observations, dict):
        return {key: row(part, step) for key, part in observations.items()}
    if isinstance(observations, tuple):
        return tuple(row(part, step) for part in observations)
    small = observations.dtype == np.uint8 and min(observations.shape[1:3]) < 36
    return observations[step].astype(np.float32) if small else observations[step]


def test_a_layout_of_other_observations_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="the policy expects"):
        export(policy_for(PLAIN, NETS["mlp"]), tmp_path / "policy.onnx", PICTURE)


# Files


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_graphs_leave_out_hidden_units_that_only_add_zeros(share: float, tmp_path: Path) -> None:
    whole, idle = (policy_for(PLAIN, NETS["dt"]) for _ in range(2))
    with torch.no_grad():
        for name, parameter in idle.net.named_parameters():
            if name.endswith("wide.0.weight"):
                parameter[: int(share * 32)] = 0.0
            if name.endswith("wide.2.weight"):
                parameter[:, int((1 - share / 2) * 64) :] = 0.0
    before = fingerprint(idle)
    assert_graphs_act_as(idle, [random_game(PLAIN, seed) for seed in range(2)], tmp_path)
    smaller, larger = (sum(weight.numel() for weight in Step(one).parameters()) for one in (idle, whole))
    assert larger - smaller == 2 * int(share * 64) * 2 * 16  # in two blocks, units with 16 weights in and 16 out
    assert fingerprint(idle) == before


def test_a_graph_says_nothing_of_the_machine_it_was_made_on(tmp_path: Path) -> None:
    for name in ("policy.onnx", "policy.pt2"):
        export(policy_for(PLAIN, NETS["mlp"]), tmp_path / name)
        content = (tmp_path / name).read_bytes()
        assert b"site-packages" not in content
        assert b"pkg.torch" not in content
        assert str(Path(__file__).parents[1]).encode() not in content


def test_without_the_extra_one_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(Mistake, match=r"pip install 'holdfast\[onnx\]'"):
        export(policy_for(PLAIN, NETS["mlp"]), tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["policy.pt", "policy.safetensors"])
def test_a_file_of_another_kind_is_not_made_a_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(Mistake, match=r"\.onnx or \.pt2"):
        export(policy_for(PLAIN, NETS["mlp"]), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_policy_is_exported_twice_to_the_same_bytes(tmp_path: Path) -> None:
    contents = []
    for name in ("policy.onnx", "again.onnx"):
        export(policy_for(PLAIN, NETS["mlp"]), tmp_path / name)
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1]


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"reward": torch.zeros(1)}, "give it another name"),
        ({"seen": torch.arange(3.0)}, "must begin with one value"),
    ],
)
def test_a_backbone_whose_state_cannot_be_named_or_described_is_refused(
    start: dict[str, torch.Tensor], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Mlp, "start", lambda net, rows: start)
    with pytest.raises(Mistake, match=message):
        export(policy_for(PLAIN, NETS["mlp"]), tmp_path / "policy.pt2")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("learner", ALL)
def test_a_folder_holds_every_learners_policy_to_the_bit(learner: str, tmp_path: Path) -> None:
    policy, games = learned_policy("toy", learner, "dt")
    written = export(policy, tmp_path / "policy")
    loaded = load_exported(tmp_path / "policy")
    assert isinstance(loaded, Policy)
    assert (loaded.target, loaded.return_scale) == (policy.target, policy.return_scale)
    assert np.array_equal(played(loaded, games), played(policy, games))
    if learner != "lora":  # its sums are stored, not their parts
        assert fingerprint(loaded) == fingerprint(policy)
    assert written.bytes == sum(file.stat().st_size for file in (tmp_path / "policy").iterdir())


def test_a_folder_holds_a_network_that_is_told_its_task_to_the_bit(tmp_path: Path) -> None:
    policy, games = learned_policy("toy-continuous", "naive", "mlp", task_id=True)
    export(policy, tmp_path / "policy")
    loaded = load_exported(tmp_path / "policy")
    assert isinstance(loaded, Policy)
    assert fingerprint(loaded) == fingerprint(policy)
    assert np.array_equal(played(loaded, games), played(policy, games))


def test_a_folder_keeps_the_layout_of_a_users_data(tmp_path: Path) -> None:
    policy = RawPolicy(policy_for(Interface(VECTOR.observation, Continuous(2, 2), 20), NETS["dt"]), VECTOR)
    export(policy.policy, tmp_path / "policy", VECTOR)
    loaded = load_exported(tmp_path / "policy")
    assert isinstance(loaded, RawPolicy)
    assert loaded.layout == VECTOR
    rng = np.random.default_rng(0)
    games = [[(raw_vector(rng), 0.5) for _ in range(STEPS)]]
    assert np.array_equal(played(loaded, games), played(policy, games))


@pytest.mark.parametrize(("zeros", "share"), [(0.0, 1.1), (0.5, 0.6), (0.9, 0.2)])
def test_a_folder_leaves_zeros_out(zeros: float, share: float, tmp_path: Path) -> None:
    wide = policy_for(PLAIN, MlpConfig(width=256, layers=2), zeros)
    wide.net.state_dict()["layers.0.linear.weight"][0] = -0.0
    written = export(wide, tmp_path / "policy")
    assert written.bytes < share * written.dense
    loaded = load_exported(tmp_path / "policy")
    assert isinstance(loaded, Policy)
    assert fingerprint(loaded) == fingerprint(wide)


def test_a_wide_observation_or_many_layers_fit_into_a_folder(tmp_path: Path) -> None:
    wide = policy_for(Interface((300_000,), Discrete(2, 2), 20), MlpConfig(width=1, layers=1))
    deep = policy_for(PLAIN, MlpConfig(width=1, layers=600))
    for name, policy in (("wide", wide), ("deep", deep)):
        export(policy, tmp_path / name)
        loaded = load_exported(tmp_path / name)
        assert isinstance(loaded, Policy)
        assert fingerprint(loaded) == fingerprint(policy)


def test_an_existing_folder_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "policy").mkdir()
    with pytest.raises(Mistake, match="already exists"):
        export(policy_for(PLAIN, NETS["mlp"]), tmp_path / "policy")
    assert not list((tmp_path / "policy").iterdir())


def test_a_folder_that_cannot_be_finished_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("holdfast.agent.exported_folder.os.rename", full)
    with pytest.raises(Mistake, match="no space is left"):
        export(policy_for(PLAIN, NETS["mlp"]), tmp_path / "policy")
    assert not list(tmp_path.iterdir())


# Folders from strangers


def forge(folder: Path, record: dict[str, Any], tensors: dict[str, torch.Tensor] | None = None) -> None:
    """Changes a folder; of tensors, it gets the right hash."""
    plain = json.loads((folder / "config.json").read_text())
    if tensors is not None:
        content = (folder / "weights.safetensors").read_bytes()
        changed, plain["sha256"] = packed({**load(content), **tensors})
        (folder / "weights.safetensors").write_bytes(changed)
    for name, value in record.items():
        *inside, last = name.split(".")
        place = plain
        for key in inside:
            place = place[key]
        place[last] = value
    (folder / "config.json").write_text(json.dumps(plain))


HUGE = 2**40
FORGED: list[dict[str, Any]] = [
    {"backbone": ["dt"]},
    {"net.width": 17},
    {"net.width": 65_536, "net.heads": 1},
    {"net.layers": 1_024},
    {"net.context": 65_536, "net.width": 65_536},
    {"net.surprise": 1},
    {"net": {}},
    {"interface": {}},
    {"interface.observation": []},
    {"interface.observation": [HUGE]},
    {"interface.observation": [3, HUGE, HUGE]},
    {"interface.observation": [-4]},
    {"interface.horizon": HUGE},
    {"interface.horizon": 10**30},
    {"interface.actions.kind": "eval"},
    {"interface.actions.width": HUGE},
    {"interface.actions.dimension": 2.5},
    {"code": -1},
    {"code": HUGE},
    {"target": "high"},
    {"target": float("nan")},
    {"return_scale": 0.0},
    {"layout": {}},
    {"layout": VECTOR.record()},
    {"sha256": "0" * 64},
    {"sha256": None},
    {"extra": 1},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An exported policy, most of whose weights are zero."""
    export(policy_for(PLAIN, NETS["dt"], zeros=0.9), tmp_path / "policy")
    return tmp_path / "policy"


@pytest.mark.parametrize("record", FORGED, ids=str)
def test_a_forged_record_is_refused_in_one_sentence(record: dict[str, Any], folder: Path) -> None:
    forge(folder, record)
    with pytest.raises(Mistake, match=r"config\.json|weights\.safetensors"):
        load_exported(folder)


@pytest.mark.parametrize(
    "tensors",
    [
        {"nonzero/mask-deflated": torch.zeros(9, dtype=torch.uint8)},
        {"nonzero/mask-deflated": torch.frombuffer(bytearray(zlib.compress(bytes(2**24))), dtype=torch.uint8)},
        {"values/values": torch.zeros(3)},
        {"values/values": torch.zeros(3, 3)},
        {"values/table-sizes": torch.full((40,), 2**30, dtype=torch.int32)},
        {"values/table-sizes": torch.full((2,), -1, dtype=torch.int32)},
        {"surprise": torch.zeros(3)},
        {"net/surprise": torch.zeros(3)},
        {"net/embed_return.weight": torch.zeros(16, 1, dtype=torch.float64)},
        {"normaliser/shift": torch.zeros(5)},
        {"normaliser/scale": torch.zeros(4)},
        {"normaliser/scale": torch.full((4,), torch.nan)},
        {"normaliser/scale": torch.ones(4, dtype=torch.int64)},
        {"code": torch.ones(1)},
    ],
    ids=lambda tensors: ", ".join(tensors),
)
def test_forged_tensors_are_refused_in_one_sentence(tensors: dict[str, torch.Tensor], folder: Path) -> None:
    forge(folder, {}, tensors)
    with pytest.raises(Mistake, match=r"weights\.safetensors is damaged"):
        load_exported(folder)


def test_a_folder_of_a_later_version_says_so(folder: Path) -> None:
    forge(folder, {"format": 2})
    with pytest.raises(Mistake, match="reads format 1: update it"):
        load_exported(folder)


def test_a_backbone_that_is_not_there_is_named(folder: Path) -> None:
    forge(folder, {"backbone": "os.system"})
    with pytest.raises(Mistake, match=r"there is no backbone 'os\.system'.*--plugin"):
        load_exported(folder)


def test_a_small_file_cannot_become_a_large_network(folder: Path) -> None:
    forge(folder, {"net.width": 16_384})  # three gibibytes, all of them zeros but for a few
    with pytest.raises(Mistake, match="does not fit into"):
        load_exported(folder)


@pytest.mark.parametrize("name", ["config.json", "weights.safetensors"])
def test_a_damaged_file_is_refused_or_read_as_it_was_meant(name: str, folder: Path) -> None:
    whole = (folder / name).read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(100):
        content = bytearray(whole)
        content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        (folder / name).write_bytes(content[: rng.integers(len(content)) if rng.random() < 0.3 else None])
        with suppress(Mistake):
            assert isinstance(load_exported(folder), Policy)  # such as another target return


@pytest.mark.parametrize("name", ["config.json", "weights.safetensors"])
def test_a_link_in_a_folder_is_not_followed(name: str, folder: Path, tmp_path: Path) -> None:
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Mistake, match="link"):
        load_exported(folder)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="missing"):
        load_exported(tmp_path / "nothing")
