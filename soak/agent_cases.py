"""Damaged agents and exported policies, odd names, and the commands that work on them."""

import json
import shutil
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from tests.recorded_data import ENVIRONMENTS, as_dicts, play, row

from holdfast.agent.agent import Agent
from holdfast.agent.exported_folder import load_exported
from holdfast.agent.index import OURS, SEAL, hash_of
from holdfast.agent.pack import RECORD
from holdfast.agent.raw_policy import RawPolicy
from holdfast.cli.main import end_with_sentence
from holdfast.data.files import sealed, unsealed
from holdfast.errors import Interrupted, Mistake
from soak.cases import Case, Workspace
from soak.commands import Outcome
from soak.damages import DAMAGES, EDITS, OF_BYTES, Target, edited, filled, mutated, stranger

TINY = {"net.width": 8, "net.layers": 1, "net.context": 4, "fit.batch": 8, "fit.log_every": 1}
STEPS = 2  # of training, in this process
AGENTS = {  # by name: learner, backbone and tasks
    "affinity": ("affinity-l", "dt", ("pendulum", "cartpole", "dict")),
    "seen": ("affinity-l", "mlp", ("images", "multi")),
    "packed": ("packnet", "mlp", ("pendulum", "tuple")),
    "unfinished": ("affinity-l", "dt", ("pendulum", "cartpole")),  # and another one that is being learned
}
PROBES = 3  # recorded observations on which policies are compared
READING = ("list", "verify", "history", "preview", "doctor", "export", "pack", "identify")
CREATED = ("none", "out", "task.pack")  # what commands are told to create
REWRITTEN = (
    *("events.jsonl", "certificates.json", "routes.json", "weights/index.json"),
    *("weights", "memory", "state", "history"),  # folders
)
NAMES = (
    *("../up", "/etc/passwd", "..", ".", "", " ", "a/b", "a\\b", "a\nb", "\x00", "\x1b[31mred", "\u202etxet", "\udcff"),
    *(
        "x" * 255,
        "x" * 100_000,
        "-dash",
        "--json",
        "CON",
        "é" * 90,
        "[red]mark",
        "%s",
        "{task}",
        "$(touch x)",
        "task-a",
    ),
    *("pendulum", "Pendulum", "pendulum ", "pendulum.0", "nan", "0", "copy-0", "index.json", "🤖", "memory", "*"),
)
NUMBERS = ("nan", "inf", "-inf", "1e999", "-1e308", "0", "-1", "", "x", "9" * 400, "0x10", "1_0", "\u0661")
ENVIRONMENT_NAMES = (
    *("Nowhere-v0", "os:path", "CartPole-v1", "CartPole-v999", "CartPole", "", "/", "../x", "\x00", "x" * 5_000),
    *("a\nb", "\x1b[1m", "ns/", ":", "a:b:c", "holdfast.errors:x-v0", "CartPole-v-1", "é-v0", "\udcff-v0"),
)


def make_agents(workspace: Workspace) -> None:
    """Makes the undamaged agents, and exports a policy of each."""
    for name, (learner, backbone, tasks) in AGENTS.items():
        agent = Agent(workspace.path / "agents" / name, learner, backbone, settings=TINY, device="cpu")
        for task in tasks:
            learn(agent, task)
        workspace.expected[name] = actions(agent.path)
        agent.export(tasks[0], workspace.path / "exported" / name)
        for whole in (False, True):
            agent.pack(tasks[0], workspace.path / "packs" / f"{name}{'-whole' if whole else ''}.pack", whole)
        if name == "unfinished":
            with interrupted():
                learn(agent, "dict")


def learn(agent: Agent, task: str) -> None:
    """Learns the recording of an environment."""
    environment = "CartPole-v1" if task == "cartpole" else None
    agent.learn(task, as_dicts(play(ENVIRONMENTS[task])), environment, budget="smoke", quiet=True)


@contextmanager
def interrupted() -> Iterator[None]:
    """Inside the block, learning is saved, and interrupted before it is kept."""

    def stop(*_: object) -> None:
        raise Interrupted("interrupted", 2)

    with (
        patch("holdfast.agent.progress.FolderRecorder.due", lambda _: True),
        patch("holdfast.agent.folder.LearningFolder.commit", stop),
        suppress(Interrupted),
    ):
        yield


def actions(path: Path) -> dict[str, bytes]:
    """What the tasks of an agent that are named after environments do on recorded observations."""
    known = Agent(path, device="cpu").known_tasks()
    return {task.name: acts(task.raw_policy(), task.name) for task in known if task.name in ENVIRONMENTS}


def acts(policy: RawPolicy, name: str) -> bytes:
    """What a policy does on recorded observations of the environment that its task is named after."""
    policy.reset()
    return b"".join(np.asarray(policy.act(observation, 0.5)).tobytes() for observation in probes(name))


@cache
def probes(name: str) -> list[Any]:
    """The first recorded observations of an environment."""
    seen = play(ENVIRONMENTS[name], 1)[0].observations
    return [row(seen, step) for step in range(PROBES)]


@dataclass(frozen=True)
class OnAgent:
    """A command that works on a copy of an agent in the folder `run`."""

    workspace: Workspace
    words: list[str]  # after `holdfast`
    base: Path  # the undamaged agent
    damaged: str = ""  # the name in the folder of what is damaged
    folder: str = "run"

    @property
    def verb(self) -> str:
        """What the command does."""
        return self.words[1]

    @property
    def expected(self) -> dict[str, bytes]:
        """What the tasks of the undamaged agent do."""
        return self.workspace.expected[self.base.name]

    def case(self, kind: str, about: str) -> Case:
        """The command as an input."""
        return Case(kind, about, self.words, self.may_change, self.check)

    def may_change(self, name: str, outcome: Outcome) -> bool:
        """Whether the command has a reason to change this file."""
        top, _, inside = name.partition("/")
        if top in CREATED:
            return outcome.code == 0
        if top != self.folder or self.verb in READING:
            return False
        if self.verb == "play":
            return inside == "events.jsonl"
        if inside in (self.damaged, *REWRITTEN):
            return True
        lost = outcome.code == 2 and (self.base / inside).exists() and not inside.startswith("state/")
        return bool(OURS.fullmatch(inside)) and not lost

    def may_change_forged(self, name: str, outcome: Outcome) -> bool:
        """The same of an index that names other files of this agent: those may be removed, and nothing outside."""
        inside = name.removeprefix(f"{self.folder}/")
        ours = inside != name and (inside in REWRITTEN or bool(OURS.fullmatch(inside)))
        return self.may_change(name, outcome) or (ours and self.verb not in READING)

    def kept(self, found: Container[str]) -> list[str]:
        """The tasks that the command must leave as they were."""
        gone = self.words[3] if self.verb == "remove" or "--replace" in self.words else None
        return [name for name in self.expected if name != gone and (self.verb != "rollback" or name in found)]

    def check(self, outcome: Outcome) -> Iterator[str]:
        """Whether the tasks still do what they did, if the command says that all is well."""
        if outcome.code != 0 or self.folder not in self.words:
            return
        try:
            if self.verb in ("verify", "learn", "install", "rollback", "remove", "prune"):
                found = actions(Path(self.folder))
                known = {name: self.expected[name] for name in self.kept(found)}
                if {name: found.get(name) for name in known} != known:
                    yield "says that all is well, but the tasks do something else"
            if self.verb == "export":
                name = self.words[3]
                policy = load_exported(self.words[-1])
                if not isinstance(policy, RawPolicy) or acts(policy, name) != self.expected[name]:
                    yield "exported something else"
        except Mistake as mistake:
            yield f"says that all is well, but then: {mistake}"


def damaged_agent(workspace: Workspace, rng: Random) -> Case:
    """A command on an agent in which one thing is damaged."""
    damage, base = rng.choice(DAMAGES), rng.choice(workspace.agents)
    shutil.copytree(base, workspace.here / "run")
    others = [other for other in workspace.agents if other != base]
    name = damage(Target(workspace.here / "run", workspace.victim, others, rng))
    words = agent_words(workspace, base, rng)
    damaged = "" if damage is stranger else name
    return OnAgent(workspace, words, base, damaged).case("agents", f"{damage.__name__}: {name} of {base.name}")


def agent_words(workspace: Workspace, base: Path, rng: Random) -> list[str]:
    """A command on an agent, with data and names that are right."""
    task = rng.choice(AGENTS[base.name][2])
    data = ["--data", str(workspace.path / "data" / "pendulum-npz" / "data.npz")]
    choices = [
        *3 * [["verify", "run"]],
        ["verify", "run", "--json"],
        ["list", "run"],
        ["list", "run", "--json"],
        ["history", "run"],
        ["preview", "run", "new", *data],
        ["export", "run", task, "--to", "out"],
        ["learn", "run", "new", *data, "--budget", "smoke", "--quiet", "--device", "cpu"],
        ["play", "run", task, "--episodes", "1", *(["--env", "CartPole-v1"] if task == "cartpole" else [])],
        ["identify", "run", *data],
        ["learn", "run", "pendulum", *data, "--budget", "smoke", "--quiet", "--device", "cpu", "--replace"],
        ["remove", "run", task],
        ["rollback", "run", "--to", str(rng.randrange(3))],
        ["prune", "run", "--keep", str(rng.randrange(2))],
        ["pack", "run", task, "--to", "task.pack", *rng.choice([[], ["--whole"]])],
        ["install", "run", str(rng.choice(workspace.packs)), "--as", "new"],
    ]
    return ["agent", *rng.choice(choices)]


def resealed(target: Target) -> str:
    """An index that says something else and has the hash of it, as a stranger may write."""
    name = "weights/index.json"
    path = target.folder / name
    record = json.loads(path.read_text())
    record.pop(SEAL, None)
    record = target.rng.choice(EDITS)(record, target.rng)
    raw = filled(record, target.rng)
    with suppress(ValueError, RecursionError, TypeError, Mistake):
        plain = json.loads(raw)
        raw = json.dumps({**plain, SEAL: hash_of(plain)})
    path.write_text(raw)
    return name


def forged_agent(workspace: Workspace, rng: Random) -> Case:
    """A command on an agent whose index a stranger wrote: it may do something else, and must end as any other."""
    base = rng.choice(workspace.agents)
    shutil.copytree(base, workspace.here / "run")
    name = resealed(Target(workspace.here / "run", workspace.victim, [], rng))
    on = OnAgent(workspace, agent_words(workspace, base, rng), base, name)
    return Case("agents", f"resealed: {name} of {base.name}", on.words, on.may_change_forged)


def damaged_pack(workspace: Workspace, rng: Random) -> Case:
    """A pack that was changed, or that a stranger wrote, is installed."""
    pack, base = rng.choice(workspace.packs), rng.choice(workspace.agents)
    shutil.copytree(base, workspace.here / "run")
    place = workspace.here / "pack"
    place.mkdir()
    shutil.copy(pack, place / "task.pack")
    damage = rng.choice([*4 * [forged_pack], mutated, *OF_BYTES])
    damage(Target(place, workspace.victim, [workspace.victim], rng))
    folder = rng.choice(["run", "run", "run", "none"])
    words = ["agent", "install", folder, "pack/task.pack", "--as", "new"]
    about = f"{damage.__name__}: {pack.name} onto {base.name}"
    return OnAgent(workspace, words, base).case("packs", about)


def forged_pack(target: Target) -> str:
    """A pack with another record or other tensors, and the hash of that."""
    path = target.folder / "task.pack"
    tensors = unsealed(path.read_bytes())
    assert tensors is not None
    rng = target.rng
    if rng.random() < 0.6:
        record = json.loads(tensors[RECORD].numpy().tobytes())
        text = filled(rng.choice(EDITS)(record, rng), rng)[:2_000_000].encode()
        tensors[RECORD] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    else:
        name = rng.choice(sorted(tensors))
        instead = [
            torch.zeros(0),
            torch.full((3,), torch.nan),
            torch.arange(5),
            tensors[name].reshape(-1)[1:],
            tensors[name] + 1,
        ]
        tensors[name] = rng.choice(instead)
        if rng.random() < 0.3:
            del tensors[name]
    path.write_bytes(sealed(tensors))
    return "task.pack"


def damaged_export(workspace: Workspace, rng: Random) -> Case:
    """An exported policy in which one thing is damaged is loaded."""
    base = rng.choice(workspace.exported)
    folder = shutil.copytree(base, workspace.here / "policy")
    damage = rng.choice([*3 * [edited_record], *OF_BYTES])
    others = [other for other in workspace.exported if other != base]
    name = damage(Target(folder, workspace.victim, others, rng))

    def load() -> None:
        load_exported(folder)

    action = partial(end_with_sentence, load, "agent")
    return Case("exported policies", f"{damage.__name__}: {name} of {base.name}", [], lambda *_: False, action=action)


def edited_record(target: Target) -> str:
    """The record of an exported policy says something else."""
    return edited(target.rng.choice(EDITS))(target)


def odd_words(workspace: Workspace, rng: Random) -> Case:
    """A command on an undamaged agent with a name or a number that makes no sense, or little."""
    base = workspace.agents[0]
    shutil.copytree(base, workspace.here / "run")
    data = ["--data", str(workspace.path / "data" / "cartpole-npz" / "data.npz")]
    name, number, env = rng.choice(NAMES), rng.choice(NUMBERS), rng.choice(ENVIRONMENT_NAMES)
    smoke = ["--budget", "smoke", "--quiet"]
    choices = [
        ["learn", "run", name, *data, *smoke],
        ["learn", "none", name, *data, *smoke],
        ["learn", "run", "new", *data, *smoke, f"--target={number}"],
        ["learn", "run", "new", *data, *smoke, f"--env={env}"],
        ["learn", "run", "new", *data, f"--budget={name}"],
        ["learn", "none", "new", *data, *smoke, f"--learner={name}"],
        ["learn", "none", "new", *data, *smoke, f"--backbone={name}"],
        ["learn", "none", "new", *data, *smoke, f"--seed={number}"],
        ["learn", "none", "new", *data, *smoke, f"--device={name}"],
        ["learn", name, "new", "--data", "nowhere"],
        ["preview", "run", name, *data],
        ["preview", "run", "new", *data, f"--env={env}"],
        ["preview", name, "new", *data, f"--budget={name}"],
        ["play", "run", name],
        ["play", "run", "cartpole", f"--env={env}", "--episodes", "1"],
        ["play", "run", "cartpole", "--episodes", "1", f"--target={number}"],
        ["play", "run", "cartpole", f"--episodes={rng.choice([number for number in NUMBERS if len(number) < 9])}"],
        ["export", "run", name, "--to", "out"],
        ["export", "run", "cartpole", f"--to={name}/x"],
        ["export", "run", "cartpole", f"--to=file/{name}"],
        ["export", "run", "cartpole", "--to", "out", f"--target={number}"],
        ["export", "run", "cartpole", "--to", "out", f"--rows={number}"],
        ["doctor", *data, f"--env={env}"],
        ["list", name],
        ["verify", name],
        ["history", name],
        ["rollback", "run", f"--to={number}"],
        ["prune", "run", f"--keep={number}"],
        ["pack", "run", name, "--to", "task.pack"],
        ["pack", "run", "cartpole", f"--to={name}/x"],
        ["pack", "run", "cartpole", f"--to=file/{name}"],
        ["remove", "run", name],
        ["learn", "run", name, *data, *smoke, "--replace"],
        ["install", "run", name],
        ["install", "run", str(workspace.packs[0]), f"--as={name}"],
        ["install", name, "nowhere.pack"],
        ["identify", name, *data],
        ["play", "run", "cartpole", "--episodes", "1", f"--video={name}"],
        [name, "run"],
        ["verify", "run", name],
    ]
    words = ["agent", *rng.choice(choices)]
    return Case("names", f"{name[:30]!r} {number[:30]!r} {env[:30]!r}", words, partial(beside, words))


def beside(words: list[str], name: str, outcome: Outcome) -> bool:
    """Whether a command on an undamaged agent has a reason to change this file."""
    top, _, inside = name.partition("/")
    if words[1] not in ("list", "verify", "history", "preview", "doctor", "identify") and outcome.code == 0:
        return top != "run" or inside in REWRITTEN or bool(OURS.fullmatch(inside))
    return False
