"""A task that is packed and installed elsewhere acts with the same bits, and nothing else moves there."""

import json
import os
import random
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import holdfast
from holdfast.agent.agent import Agent
from holdfast.agent.pack import LARGEST_RECORD, RECORD
from holdfast.cli.completion import words_of
from holdfast.cli.main import main
from holdfast.data.files import sealed, unsealed
from holdfast.errors import Busy, Mistake
from holdfast.learners.learner import learner_spec
from holdfast.learners.subnetworks import SubnetworkLearner
from holdfast.registry import LEARNERS, NETS
from tests.agents import SETTINGS, interrupted, state
from tests.cuts import PowerCut, cut_after
from tests.recorded_data import ENVIRONMENTS, as_dicts, play
from tests.tiny import QUIET, contents, tiny_learner, tiny_suite

WITH_SUBNETWORKS = [
    name
    for name in LEARNERS
    if isinstance(learner_spec(name).learner, type) and issubclass(learner_spec(name).learner, SubnetworkLearner)
]


@cache
def episodes(kind: str, episode: int) -> list[dict[str, Any]]:
    """Recorded episodes; each number gives others."""
    return as_dicts(play(ENVIRONMENTS[kind], 3 + episode))[episode:]


SHARING = {  # later tasks own entries too, and others may reuse them
    f"affinity-l:subnets.{name}": value
    for name, value in (("new", "planned"), ("private", 0.0), ("biases", "masked"), ("far_source", "nearest"))
}


def agent_at(path: Path, learner: str = "affinity-l", backbone: str = "dt", **more: Any) -> Agent:
    settings = {**SETTINGS, **SHARING, "packnet:subnets.tasks": 5, **more}
    return Agent(path, learner, backbone, settings.pop("seed", None), settings=settings, device="cpu")


def learn(agent: Agent, name: str, kind: str = "pendulum", episode: int = 0) -> None:
    agent.learn(name, episodes(kind, episode), budget="smoke", quiet=True)


def actions(agent: Agent, name: str, kind: str = "pendulum") -> bytes:
    """What a task's policy does on recorded observations."""
    policy, observations = agent.policy(name), episodes(kind, 0)[0]["observations"]
    policy.reset()
    return b"".join(np.asarray(policy.act(row, 1.0)).tobytes() for row in observations)


def certified(agent: Agent) -> dict[str, str]:
    """The newest fingerprint of each task."""
    return {one.task: one.fingerprint for one in agent.folder.read_certificates()}


@pytest.fixture(scope="session")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An agent with three tasks in one copy, and beside it what it was before the second and third."""
    place = tmp_path_factory.mktemp("packs")
    agent = agent_at(place / "agent")
    for number, name in enumerate(("swing", "hold", "rest")):
        learn(agent, name, episode=number)
        shutil.copytree(agent.path, place / f"after-{name}")
    assert {agent.copy_of(name) for name in agent.tasks} == {0}
    for name in agent.tasks:
        agent.pack(name, place / f"{name}.pack")
        agent.pack(name, place / f"{name}-whole.pack", whole=True)
    return place


@pytest.fixture
def after(origin: Path, tmp_path: Path) -> Callable[[str], Agent]:
    """A copy of the agent as it was after a task."""

    def copied(name: str) -> Agent:
        shutil.copytree(origin / f"after-{name}", tmp_path / name)
        return Agent(tmp_path / name, device="cpu")

    return copied


@pytest.mark.parametrize(
    ("learner", "backbone", "settings"),
    [
        *((learner, backbone, {}) for learner in WITH_SUBNETWORKS for backbone in NETS),
        ("affinity-l", "dt", {"subnets.private": 0.1, "subnets.quantise_bits": 4}),
        ("affinity-l", "dt", {"subnets.outside": "frozen"}),
        ("tsn-core", "dt", {"subnets.reuse": False, "subnets.biases": "outside", "subnets.outside": "frozen"}),
    ],
)
def test_an_installed_task_is_the_packed_one_to_the_bit_and_others_stay(learner, backbone, settings, tmp_path):
    agent = agent_at(tmp_path / "agent", learner, backbone, **settings)
    learn(agent, "swing")
    shutil.copytree(agent.path, tmp_path / "other")
    learn(agent, "hold", episode=1)
    other = Agent(tmp_path / "other", device="cpu")
    before = actions(other, "swing")
    agent.pack("hold", tmp_path / "hold.pack")
    installed = other.install(tmp_path / "hold.pack")
    assert installed.copy == (agent.copy_of("hold") or 0)
    assert certified(other) == certified(agent)
    assert other.verify() == ["swing", "hold"]
    assert actions(other, "hold") == actions(agent, "hold")
    assert actions(other, "swing") == before
    assert json.dumps(other.record("hold").record()) == json.dumps(agent.record("hold").record())
    agent.pack("hold", tmp_path / "whole.pack", whole=True)
    elsewhere = agent_at(tmp_path / "elsewhere", learner, backbone, seed=3, **settings)
    elsewhere.install(tmp_path / "whole.pack")
    assert certified(elsewhere)["hold"] == certified(agent)["hold"]
    learn(elsewhere, "rest", episode=2)
    assert elsewhere.verify() == ["hold", "rest"]
    assert actions(elsewhere, "hold") == actions(agent, "hold")


def test_what_was_saved_of_an_interrupted_task_is_dropped_since_its_copy_has_changed(after, origin, monkeypatch):
    agent = after("swing")

    with interrupted(monkeypatch):
        learn(agent, "rest", episode=2)
    assert list((agent.path / "state").iterdir())
    agent.install(origin / "hold.pack")
    learn(agent, "rest", episode=2)
    assert agent.verify() == ["swing", "hold", "rest"]
    assert not (agent.path / "state").exists()


def test_a_finished_run_installs_packs_as_well(tmp_path):
    suite = tiny_suite("toy-continuous", 2)
    holdfast.run(suite, tiny_learner("affinity-l", suite), tmp_path / "run", QUIET)
    shutil.copytree(tmp_path / "run", tmp_path / "other")
    run, other = Agent(tmp_path / "run", device="cpu"), Agent(tmp_path / "other", device="cpu")
    learn(run, "swing")
    run.pack("swing", tmp_path / "swing.pack")
    other.install(tmp_path / "swing.pack")
    assert other.verify() == [*suite.names, "swing"]
    assert actions(other, "swing") == actions(run, "swing")
    assert holdfast.reopen(other.path, "cpu", suite)[1].learned == other.tasks
    with pytest.raises(Mistake, match="is a task of the run's suite"):
        run.pack(suite.names[0], tmp_path / "first.pack")


def test_later_tasks_are_compared_with_an_installed_one_and_its_episodes_are_recognised(after, origin):
    agent, whole = after("swing"), Agent(origin / "agent", device="cpu")
    agent.install(origin / "hold.pack")
    agent.install(origin / "rest.pack")
    ours, theirs = (one.preview("more", episodes("pendulum", 3)).route["candidates"] for one in (agent, whole))
    assert ours == theirs
    for episode in episodes("pendulum", 1):
        seen = episode["observations"]
        assert agent.identify(seen) == whole.identify(seen)


def test_installing_can_be_undone(after, origin):
    agent = after("swing")
    before = state(agent)
    agent.install(origin / "hold.pack")
    agent.rollback(1)
    assert state(agent) == before
    agent.install(origin / "hold-whole.pack")
    assert agent.verify() == ["swing", "hold"]


def test_a_task_that_was_removed_is_installed_again_and_an_installed_one_is_removed(after, origin):
    agent = after("rest")
    before = certified(agent)
    agent.remove("hold")
    assert agent.install(origin / "hold.pack").copy == 0
    assert {name: certified(agent)[name] for name in before} == before
    agent.remove("hold")
    assert agent.verify() == ["swing", "rest"]


def test_a_task_whose_base_was_removed_packs_what_it_owns_now(after, origin, tmp_path):
    agent = after("hold")
    agent.remove("swing")
    packed = agent.pack("hold", tmp_path / "hold.pack")
    assert packed.bytes == pytest.approx((origin / "hold-whole.pack").stat().st_size, rel=0.05)
    other = agent_at(tmp_path / "other")
    other.install(packed.path)
    assert certified(other) == {"hold": certified(agent)["hold"]}


def test_a_pack_is_the_same_to_the_byte_when_it_is_written_again_and_after_later_tasks(after, origin, tmp_path):
    for name in ("hold", "rest"):
        for whole, written in ((False, f"{name}.pack"), (True, f"{name}-whole.pack")):
            packed = after(name).pack(name, tmp_path / "again.pack", whole)
            shutil.rmtree(tmp_path / name)
            assert (tmp_path / "again.pack").read_bytes() == (origin / written).read_bytes()
            assert packed.bytes == (tmp_path / "again.pack").stat().st_size


def test_an_installed_task_can_be_packed_again_under_its_new_name(after, origin, tmp_path):
    agent = after("swing")
    agent.install(origin / "hold.pack", "held")
    agent.pack("held", tmp_path / "held.pack")
    other = Agent(shutil.copytree(origin / "after-swing", tmp_path / "other"), device="cpu")
    other.install(tmp_path / "held.pack")
    assert other.tasks == ["swing", "held"]
    assert actions(other, "held") == actions(agent, "held")


def test_tasks_of_other_interfaces_are_installed_where_nothing_was_learned(tmp_path):
    agent = agent_at(tmp_path / "agent")
    for kind in ("cartpole", "dict", "images"):
        learn(agent, kind, kind)
        agent.pack(kind, tmp_path / f"{kind}.pack")
    other = agent_at(tmp_path / "other", seed=1)
    for number, kind in enumerate(("images", "cartpole", "dict")):
        assert other.install(tmp_path / f"{kind}.pack").copy == number
    assert certified(other) == certified(agent)


def test_a_task_is_installed_where_its_base_is_and_refused_elsewhere(after, origin, tmp_path):
    agent = after("swing")
    before = contents(agent.path)
    with pytest.raises(Mistake, match="reuses weights that are not in this agent: install the tasks first that rest"):
        agent.install(origin / "rest.pack")
    with pytest.raises(Mistake, match="already has a task swing: give this one another name with --as"):
        agent.install(origin / "swing.pack")
    with pytest.raises(Mistake, match="a task's name must consist of letters"):
        agent.install(origin / "hold.pack", "../hold")
    with pytest.raises(Mistake, match="there is no file"):
        agent.install(tmp_path / "none.pack")
    with Agent(agent.path).folder, pytest.raises(Busy, match="another process is working in"):
        agent.install(origin / "hold.pack")
    assert contents(agent.path) == before
    agent.install(origin / "hold.pack")
    agent.install(origin / "rest.pack")
    assert {agent.copy_of(name) for name in agent.tasks} == {0}
    assert certified(agent) == certified(Agent(origin / "agent"))


def test_a_task_with_a_change_of_its_own_needs_the_first_task_of_its_copy_alone(tmp_path):
    agent = Agent(tmp_path / "agent", settings=SETTINGS, device="cpu")
    for number, name in enumerate(("swing", "hold", "rest")):
        learn(agent, name, episode=number)
        if name == "swing":
            shutil.copytree(agent.path, tmp_path / "other")
    agent.pack("rest", tmp_path / "rest.pack")
    other = Agent(tmp_path / "other", device="cpu")
    assert other.install(tmp_path / "rest.pack").copy == 0
    assert actions(other, "rest") == actions(agent, "rest")


def test_a_task_whose_weights_another_one_took_is_installed_whole(after, origin):
    agent = after("swing")
    learn(agent, "other", episode=3)
    with pytest.raises(Mistake, match="needs weights that are taken by other in this agent: pack it with --whole"):
        agent.install(origin / "hold.pack")
    assert agent.install(origin / "hold-whole.pack").copy == 1
    assert agent.verify() == ["swing", "other", "hold"]


def test_the_same_task_under_another_name_takes_no_weights(after, origin):
    agent = after("rest")
    assert agent.install(origin / "hold.pack", "held").copy == 0
    assert agent.install(origin / "swing.pack", "swung").copy == 0
    assert certified(agent)["held"] == certified(agent)["hold"]
    assert agent.verify() == ["swing", "hold", "rest", "held", "swung"]
    assert agent.bytes_of("held") < agent.bytes_of("hold")


@pytest.mark.parametrize(
    ("learner", "settings", "sentence"),
    [
        ("affinity-l", {"net.width": 32}, "net.width = 16, and this one has 32"),
        ("affinity-l", {"subnets.biases": "outside"}, "subnets.biases = 'masked', and this one has 'outside'"),
        ("affinity-l", {"fit.return_scale": 7.0}, "fit.return_scale = 1.0, and this one has 7.0"),
        (
            "tsn-replaykl",
            {},
            "lacks what this agent's router keeps of a task: install it on an agent with the learner 'affinity-l'",
        ),
        ("single", {}, "single gives tasks no subnetworks"),
        ("lora", {}, "lora gives tasks no subnetworks"),
    ],
)
def test_an_agent_with_another_network_is_refused_and_no_folder_is_left(learner, settings, sentence, origin, tmp_path):
    other = agent_at(tmp_path / "other", learner, **settings)
    with pytest.raises(Mistake, match=sentence):
        other.install(origin / "hold-whole.pack")
    assert not other.path.exists()


def test_a_pack_for_a_router_with_another_kind_of_threshold_is_refused_by_the_name_of_that_setting(tmp_path):
    number, auto = (
        agent_at(tmp_path / name, **{"routing.threshold": threshold})
        for name, threshold in (("number", 25.0), ("auto", "auto"))
    )
    for agent in (number, auto):
        learn(agent, "swing")
        agent.pack("swing", tmp_path / f"{agent.path.name}.pack")
    with pytest.raises(
        Mistake, match=r"install it on an agent with a number as routing\.threshold \(this one has 'auto'\)"
    ):
        auto.install(tmp_path / "number.pack", "swung")
    assert number.install(tmp_path / "auto.pack", "swung").copy == 0
    assert auto.tasks == ["swing"]


@pytest.mark.parametrize("learner", ["affinity-l", "affinity-h"])
def test_what_is_advised_for_a_pack_that_a_router_lacks_something_of_is_right(learner, tmp_path):
    origin = agent_at(tmp_path / "origin", **{"routing.threshold": 25.0})
    learn(origin, "swing")
    origin.pack("swing", tmp_path / "swing.pack", whole=True)
    shared = {setting.removeprefix("affinity-l:"): value for setting, value in SHARING.items()}
    auto, number = (
        agent_at(tmp_path / name, learner, **{**shared, "routing.threshold": threshold})
        for name, threshold in (("auto", "auto"), ("number", 0.5))
    )
    learn(auto, "other", episode=3)
    learn(number, "other", episode=3)
    with pytest.raises(Mistake, match=r"on an agent with a number as routing\.threshold \(this one has 'auto'\)"):
        auto.install(tmp_path / "swing.pack")
    assert number.install(tmp_path / "swing.pack").copy == 1


def test_tasks_without_subnetworks_of_their_own_are_not_packed(tmp_path):
    for learner, settings in (("single", {}), ("tsn-core", {"subnets.outside": "shared"})):
        agent = agent_at(tmp_path / learner, learner, **settings)
        learn(agent, "swing")
        with pytest.raises(Mistake, match="packed"):
            agent.pack("swing", tmp_path / "swing.pack")
    assert not (tmp_path / "swing.pack").exists()


def test_an_environment_that_would_import_a_module_is_not_played(after, origin, tmp_path):
    agent = after("swing")
    forged(origin / "hold.pack", tmp_path / "forged.pack", lambda record: record["note"].update(environment="os:Evil"))
    agent.install(tmp_path / "forged.pack")
    with pytest.raises(Mistake, match="os:Evil, imports a module: name it with --env"):
        agent.play("hold")


# Damaged and forged packs


def forged(pack: Path, to: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """A pack with a changed record, and with the right hash."""
    tensors = unsealed(pack.read_bytes())
    record = json.loads(tensors[RECORD].numpy().tobytes())
    change(record)
    tensors[RECORD] = as_tensor(json.dumps(record).encode())
    to.write_bytes(sealed(tensors))
    return to


def as_tensor(text: bytes) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(text, np.uint8).copy())


RECORDS: list[Callable[[dict[str, Any]], object]] = [
    lambda record: record.update(task="../../up"),
    lambda record: record.update(task="/etc/passwd"),
    lambda record: record.update(task=3),
    lambda record: record.update(format=2),
    lambda record: record.update(extra=1),
    lambda record: record.pop("note"),
    lambda record: record.update(whole="yes"),
    lambda record: record.update(horizon=2**62),
    lambda record: record.update(horizon=-1),
    lambda record: record.update(target=float("nan")),
    lambda record: record.update(base="0" * 64),
    lambda record: record.update(base="x"),
    lambda record: record.update(fingerprint="0" * 64),
    lambda record: record.update(layout={"names": [], "shapes": []}),
    lambda record: record["layout"]["shapes"].__setitem__(0, [2**31, 2**31]),
    lambda record: record["settings"]["net"].update(width=2**40),
    lambda record: record["settings"].update(net=None),
    lambda record: record.update(settings={}),
    lambda record: record["note"].update(reward_scale=0.0),
    lambda record: record["note"].update(reward_scale=-1.0),
    lambda record: record["note"].update(layout={}),
    lambda record: record["note"]["layout"]["parts"][0].update(shape=[2**40]),
    lambda record: record["note"]["layout"]["parts"][0].update(shape=[2**20]),
    lambda record: record["note"]["layout"].update(actions={"kind": "discrete", "count": 3}),
    lambda record: record["note"]["layout"]["actions"].update(shape=[2], low=[0.0, 0.0], high=[1.0, 1.0]),
]


def test_a_forged_record_is_refused_in_one_sentence(after, origin, tmp_path, capsys):
    agent, pack = after("swing"), tmp_path / "forged.pack"
    before = contents(agent.path)
    for change in RECORDS:
        forged(origin / "hold.pack", pack, change)
        refused(["agent", "install", str(agent.path), str(pack)], capsys)
    for text in (b"", b"null", b"[]", b"{", b"\xff", b"[" * 100_000, b" " * (LARGEST_RECORD + 1)):
        tensors = unsealed((origin / "hold.pack").read_bytes())
        pack.write_bytes(sealed({**tensors, RECORD: as_tensor(text)}))
        refused(["agent", "install", str(agent.path), str(pack)], capsys)
    assert contents(agent.path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["forged.pack", "swing"]


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command says that is refused in one sentence."""
    with pytest.raises(SystemExit) as stop:
        main(words)
    said = capsys.readouterr().err
    assert stop.value.code == 2, said
    assert "Traceback" not in said
    assert said.strip()
    return said


def without(tensors: dict[str, torch.Tensor], left_out: str) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in tensors.items() if name != left_out}


def forgeries_of(name: str, tensor: torch.Tensor) -> list[torch.Tensor | None]:
    """What may stand instead of a tensor; None if it is left out."""
    if not tensor.numel():
        return [None]
    shorter = tensor[:-1] if tensor.ndim else torch.zeros(2)
    if name == "kept/sketch/points":
        return [None, tensor[:, :-1]]  # a sketch may have fewer observations
    if name.startswith("kept/"):
        return [None, shorter]  # what the router keeps may have any values
    if tensor.is_floating_point():
        return [None, shorter, tensor.to(torch.int16), torch.full_like(tensor, float("nan")), tensor + 1]
    return [None, shorter, tensor.to(torch.int16), torch.full_like(tensor, 255), torch.zeros_like(tensor)]


def test_forged_tensors_are_refused_and_leave_the_agent_as_it_was(after, origin, tmp_path):
    agent = after("swing")
    before = contents(agent.path)
    tensors = unsealed((origin / "hold.pack").read_bytes())
    forgeries = [
        {**without(tensors, name), **({} if other is None else {name: other})}
        for name, tensor in tensors.items()
        if name != RECORD
        for other in forgeries_of(name, tensor)
    ]
    assert len(forgeries) > 30
    for forgery in forgeries:
        (tmp_path / "forged.pack").write_bytes(sealed(forgery))
        with pytest.raises(Mistake, match=r"cannot be installed|reuses weights that are not|lacks what"):
            agent.install(tmp_path / "forged.pack")
    (tmp_path / "forged.pack").write_bytes(sealed({**tensors, "../more": torch.zeros(1)}))
    with pytest.raises(Mistake, match="is not a tensor of a pack"):
        agent.install(tmp_path / "forged.pack")
    assert contents(agent.path) == before


def test_a_pack_that_was_changed_anywhere_is_refused_and_the_agent_stays_equal_to_the_byte(after, origin, tmp_path):
    agent, rng = after("swing"), random.Random(0)
    content, before = (origin / "hold.pack").read_bytes(), contents(agent.path)
    for number in range(300):
        damaged = bytearray(content)
        place = rng.randrange(len(content))
        if number % 3 == 0:
            damaged[place] ^= 1 << rng.randrange(8)
        elif number % 3 == 1:
            del damaged[place:]
        else:
            damaged[place:place] = rng.randbytes(rng.randrange(1, 9))
        (tmp_path / "damaged.pack").write_bytes(damaged)
        with pytest.raises(Mistake, match="is not a pack, or was changed"):
            agent.install(tmp_path / "damaged.pack")
    assert contents(agent.path) == before


def test_a_pack_is_a_regular_file_of_a_sensible_size(after, tmp_path, monkeypatch):
    agent = after("swing")
    with (tmp_path / "huge.pack").open("wb") as file:
        file.truncate(2**40)  # a hole
    os.mkfifo(tmp_path / "pipe.pack")
    for name in ("huge", "pipe"):
        with pytest.raises(Mistake, match=r"too large|not a regular file"):
            agent.install(tmp_path / f"{name}.pack")
    monkeypatch.setattr("holdfast.agent.pack.LARGEST", 1_000)
    with pytest.raises(Mistake, match="a pack has at most 1000"):
        agent.pack("swing", tmp_path / "large.pack")
    assert not (tmp_path / "large.pack").exists()


# Power may fail at any moment


def test_after_a_power_cut_at_any_system_call_of_an_install_the_task_is_there_or_not(origin, tmp_path, monkeypatch):
    ends, expected = set(), certified(Agent(origin / "after-hold"))
    for event in range(1, 100):
        shutil.rmtree(tmp_path / "cut", ignore_errors=True)
        shutil.copytree(origin / "after-swing", tmp_path / "cut")
        with cut_after(event, monkeypatch):
            try:
                Agent(tmp_path / "cut", device="cpu").install(origin / "hold.pack")
                break
            except PowerCut:
                pass
        agent = Agent(tmp_path / "cut", device="cpu")
        ends.add(tuple(agent.verify()))
        if "hold" not in agent.tasks:
            agent.install(origin / "hold.pack")
            assert not list(agent.path.rglob("*.part"))
        assert certified(agent) == expected, event
    assert ends == {("swing",), ("swing", "hold")}
    assert event > 8


# The command line


def test_the_command_line_packs_and_installs(after, origin, tmp_path, capsys):
    agent, file = after("hold"), tmp_path / "hold.pack"
    main(["agent", "pack", str(agent.path), "hold", "--to", str(file)])
    assert f"wrote {file}" in capsys.readouterr().out
    main(["agent", "pack", str(agent.path), "hold", "--to", str(tmp_path / "whole.pack"), "--whole", "--json"])
    assert json.loads(capsys.readouterr().out)["bytes"] > file.stat().st_size
    main(["agent", "install", str(agent.path), str(tmp_path / "whole.pack"), "--as", "held"])
    assert "installed held into copy 1: equal to the bit" in capsys.readouterr().out
    main(["agent", "history", str(agent.path)])
    assert "the pack of held has the SHA-256" in capsys.readouterr().out
    main(["agent", "list", str(agent.path)])
    assert "held" in capsys.readouterr().out
    other = after("swing").path
    main(["agent", "install", str(other), str(file), "--json"])
    assert json.loads(capsys.readouterr().out)["name"] == "hold"
    assert {"--as", "--whole"} <= set(words_of("agent").flags)
    refused(["agent", "pack", str(other), "nothing", "--to", str(file)], capsys)
    refused(["agent", "pack", str(tmp_path / "none"), "hold", "--to", str(file)], capsys)
