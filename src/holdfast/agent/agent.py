"""The agent: a folder that learns one dataset after another, keeps all of them to the bit, and acts."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, overload

from holdfast.agent.agent_folder import AgentFolder
from holdfast.agent.changes import Change
from holdfast.agent.configure import apply
from holdfast.agent.devices import check_device, check_memory
from holdfast.agent.export import Export, export
from holdfast.agent.folder import CONFIG
from holdfast.agent.history import check_past, go_back, prune, store_at
from holdfast.agent.identify import Identification, KnownTask, identify, known_tasks
from holdfast.agent.install import Installed, adopt, install
from holdfast.agent.learning import AgentSession, Learned, make_room, retention
from holdfast.agent.new_agent import BACKBONE, LEARNER, plan_of
from holdfast.agent.own_task import own_task, read_own
from holdfast.agent.pack import Packed, packed_task, read_pack, write_pack
from holdfast.agent.plan import AgentPlan
from holdfast.agent.playing import played
from holdfast.agent.preview import Preview, previewed, seconds_a_step
from holdfast.agent.progress import Screen
from holdfast.agent.raw_policy import RawPolicy, with_raw_rewards
from holdfast.agent.removal import remove
from holdfast.agent.session import Session, threads
from holdfast.agent.sketch import sketch_of
from holdfast.agent.store import Store
from holdfast.agent.task_record import TaskRecord
from holdfast.agent.unnamed_policy import UnnamedPolicy
from holdfast.data.episodes import Dataset
from holdfast.data.sources import Where
from holdfast.errors import Mistake
from holdfast.evaluation.film import check_video
from holdfast.evaluation.rollouts import Evaluation
from holdfast.learners.learner import Learner, learner_spec
from holdfast.nets.policy import Policy
from holdfast.tasks.suite import Settings
from holdfast.tasks.task import check_name
from holdfast.training.cache import NoCache

BUDGETS: Mapping[str, int] = {"smoke": 20, "quick": 500, "full": 20_000}  # training steps
SAVE_EVERY = 30.0  # seconds between two saves of a task that is being learned
EPISODES = 10  # that are played in the environment after learning


class Agent:
    """Learns tasks into a folder, which is created on first use. A finished run's folder is an agent as well."""

    def __init__(
        self,
        path: str | Path,
        learner: str | None = None,
        backbone: str | None = None,
        seed: int | None = None,
        *,
        settings: Settings | None = None,
        device: str = "auto",
    ) -> None:
        """Opens the agent in this folder; the settings are those of a new one, and cannot be changed afterwards."""
        self.path, self.device = Path(path), check_device(device)
        self.plan = plan_of(learner or LEARNER, backbone or BACKBONE, seed or 0, settings or {})
        if self.exists:
            self.folder.check_weights()
            kept = self.folder.plan
            chosen = (learner or kept.learner, backbone or kept.backbone, kept.seed if seed is None else seed)
            self.folder.check_plan(apply(AgentPlan(kept.config, *chosen), settings or {}))
            self.plan = kept

    @property
    def exists(self) -> bool:
        """Whether there is an agent in the folder; a new one is created when its first task is learned."""
        return os.path.lexists(self.path / CONFIG)

    @cached_property
    def folder(self) -> AgentFolder:
        """The folder, which is created if it does not exist."""
        return AgentFolder(self.path, self.plan)

    @property
    def tasks(self) -> list[str]:
        """The learned tasks, in order."""
        if not self.exists:
            return []
        self.folder.store.load()
        return self.folder.store.learned

    def record(self, name: str) -> TaskRecord | None:
        """The notes about a learned task; a task that a run planned has none."""
        if name not in self.tasks:
            raise Mistake(f"{self.path} has not learned {name}: it knows {', '.join(self.tasks) or 'nothing yet'}")
        found = self.folder.store.index.records.get(name)
        return TaskRecord.read(found) if found else None

    def copy_of(self, name: str) -> int | None:
        """The copy that a task is in, as it was routed; None for a learner without routing."""
        return self._route(name).get("copy")

    def _route(self, name: str) -> dict[str, Any]:
        """How a task was routed; empty for a learner without routing."""
        routes = self.folder.routes_by(len(self.tasks))
        return next((route for route in routes if route["task"] == name), {})

    def bytes_of(self, name: str) -> int:
        """The size of the file that holds what only this task needs; 0 for a learner that keeps no such file."""
        file = self.folder.store.index.stages[-1].weights.get(f"task-{name}")
        return self.folder.directory.size(file.path) if file else 0

    def learn(
        self,
        name: str,
        data: Where,
        env: str | None = None,
        budget: str = "quick",
        *,
        target: float | None = None,
        quiet: bool = False,
        replace: bool = False,
    ) -> Learned:
        """Learns a task from recorded episodes; if it is interrupted, the same call continues.

        `env` is the id of a Gymnasium environment, if the data does not name it. `target` is the return that the policy
        is asked for, by default the 0.9 quantile of the data's returns. With `replace`, the task takes the place of the
        one that has its name, unless it scores worse on held-out episodes of this data.
        """
        steps, old = budget_steps(budget), self._note(name) if replace else None
        found, record = read_own(data, env, self.plan, budget=budget, target=target, old=old)
        task, kept_back = own_task(name, found, record, self.plan.seed)
        with ExitStack() as stack:
            folder = stack.enter_context(self.folder)
            folder.check_finished()
            learner = self._learner(steps)
            check_memory(learner.config, task.interface, self.device)
            folder.store.check_memory_kept()
            if old:
                make_room(folder, learner, name, kept_back)
            elif name in folder.store.learned:
                raise Mistake(
                    f"{self.path} has already learned a task {name}: give the new one another name, or replace it"
                )
            stack.enter_context(threads(folder.record["threads"]))
            screen = stack.enter_context(Screen(quiet))
            sketch = sketch_of(found.dataset, self.plan.seed)
            session = AgentSession(folder, learner, screen, None, NoCache(), SAVE_EVERY, record, kept_back, sketch, old)
            session.learn([task], no_data)
            folder.store.remove_state()
            return self._learned(name, session, found.notes)

    def _learned(self, name: str, session: AgentSession, notes: tuple[str, ...]) -> Learned:
        """What a session gave; if a task was not replaced, this is about the one that stays."""
        record, compared = self._note(name), session.comparison
        cost = {**self.folder.store.bytes(-1), "task": self.bytes_of(name)}
        played = None
        if record.environment and (compared is None or compared.replaced):
            session.screen.show(f"play {name}", 0, EPISODES)
            played = self.play(name, record.environment)
            session.screen.show(f"play {name}", EPISODES, EPISODES)
        return Learned(name, record, self._route(name), cost, played, notes, retention(session.certificates), compared)

    def preview(self, name: str, data: Where, env: str | None = None, budget: str = "quick") -> Preview:
        """Where a task would go and why, and what it would cost; nothing is trained or written."""
        steps = budget_steps(budget)
        found, record = read_own(data, env, self.plan, budget=budget)
        task, _ = own_task(name, found, record, self.plan.seed)
        pace = None
        if self.exists:
            records = self.folder.store.index.records
            trained = {name: BUDGETS.get(str(kept.get("budget")), 0) for name, kept in records.items()}
            pace = seconds_a_step(self.folder.events(), trained)
        sketch = sketch_of(found.dataset, self.plan.seed)
        return previewed(self._learner(), task, sketch, None if pace is None else pace * steps, found.notes)

    def pack(self, name: str, path: str | Path, whole: bool = False) -> Packed:
        """Writes one task as one file, which another agent with the same base installs; if `whole`, any agent."""
        record, dataset = self._note(name), self.folder.store.index.datasets.get(name, "")
        return write_pack(Path(path), packed_task(self._learner(), self.plan, name, record, dataset, whole=whole))

    def install(self, path: str | Path, name: str | None = None) -> Installed:
        """Puts the task of a pack into the agent, without training; `name` is another name for it."""
        pack = read_pack(Path(path))
        name = pack.record.task if name is None else name
        check_name(name)
        if not self.exists:
            adopt(self._learner(), self.plan, pack, name)  # so that a mistake leaves no folder
        with self.folder as folder:
            folder.check_finished()
            folder.store.check_memory_kept()
            return install(self._session(folder, self._learner()), pack, name)

    @overload
    def policy(self, name: str, target: float | None = None) -> RawPolicy: ...

    @overload
    def policy(self, name: None = None) -> UnnamedPolicy: ...

    def policy(self, name: str | None = None, target: float | None = None) -> RawPolicy | UnnamedPolicy:
        """The policy of a learned task: raw observations and rewards in, the environment's actions out.

        `target` is another return to ask for, in the units of the environment's rewards. Without a name, the first
        observation of an episode says which task it is.
        """
        if name is not None:
            policy, record = self._acting(name, target)
            return RawPolicy(policy, record.read_layout())
        if target is not None:
            raise Mistake("a target is the return of one task: name the task")
        return UnnamedPolicy(self.known_tasks())

    def identify(self, observations: Any, actions: Any = None, rewards: Any = None) -> Identification:
        """The learned task that an episode belongs to, or none: from its first observations, and actions if given.

        Observations, actions and rewards are those of the environment, one row a step; a list of observations will do.
        """
        return identify(self.known_tasks(), observations, actions, rewards)

    def known_tasks(self) -> list[KnownTask]:
        """The learned tasks that episodes can be compared with; a task that a run planned is none of them."""
        records = {name: record for name in self.tasks if (record := self.record(name))}
        return known_tasks(self._learner(), records)

    def export(self, name: str, path: str | Path, target: float | None = None, rows: int = 1) -> Export:
        """Writes the policy of a learned task to policy.onnx, to policy.pt2, or into a folder."""
        policy, record = self._acting(name, target)
        return export(policy, path, record.read_layout(), rows)

    def _acting(self, name: str, target: float | None) -> tuple[Policy, TaskRecord]:
        """A policy that is given raw rewards, and the notes about its task."""
        record = self._note(name)
        return with_raw_rewards(self._learner().policy(name), record, target), record

    def _note(self, name: str) -> TaskRecord:
        record = self.record(name)
        if record is None:
            raise Mistake(f"{name} is a task of the run's suite: holdfast.reopen({str(self.path)!r}) gives its policy")
        return record

    def verify(self) -> list[str]:
        """Computes every task's fingerprint again from the files, and raises unless it is that of its certificate.

        The files that only the past needs must be as they were written, too.
        """
        for task in self.known_tasks():
            task.raw_policy()  # raises unless its layout is that of its policy
        if self.exists:
            check_past(self.folder.store)
        return self.tasks

    def history(self) -> list[Change]:
        """All changes of the agent, the first one first."""
        if not self.exists:
            return []
        self.folder.store.load()
        return self.folder.store.index.changes

    def remove(self, name: str) -> Change:
        """Forgets a task: what only it used is free again, and all others stay equal to the bit.

        Its files stay until they are pruned, so that `rollback` can bring it back.
        """
        with self._existing() as folder:
            remove(self._session(folder, self._learner()), name)
        return self.history()[-1]

    def rollback(self, to: int) -> Change:
        """Brings the agent back to the bit to what it was after the change with this number; 0 is before the first.

        This is a change as well, so one can go back to before it. A task that is being learned begins anew.
        """
        with self._existing() as folder:
            before = folder.store.index.number
            self._learner_of(store_at(folder.store, to))  # raises if its files are damaged
            go_back(folder.store, to)
            folder.changed(before)
        return self.history()[-1]

    def prune(self, keep: int = 0) -> int:
        """Deletes what only the past needs, but for the last `keep` states; returns the bytes that it freed."""
        with self._existing() as folder:
            self._learner()  # raises if the present is damaged, since the past may be needed then
            return prune(folder.store, keep)

    def _existing(self) -> AgentFolder:
        """The folder, which must exist."""
        if not self.exists:
            raise Mistake(f"there is no agent in {self.path}: one is made when its first task is learned")
        return self.folder

    def _session(self, folder: AgentFolder, learner: Learner) -> Session[AgentFolder]:
        """A session that trains nothing."""
        return Session(folder, learner, Screen(quiet=True), None, NoCache(), SAVE_EVERY)

    def _learner(self, steps: int | None = None) -> Learner:
        """The learner with all that was learned, its certificates checked."""
        if self.exists:
            self.folder.store.load()
        return self._learner_of(self.folder.store if self.exists else None, steps)

    def _learner_of(self, store: Store | None, steps: int | None = None) -> Learner:
        plan = self.plan
        config = plan.config if steps is None else replace(plan.config, fit=replace(plan.config.fit, steps=steps))
        learner = learner_spec(plan.learner).learner(config, plan.seed, self.device)
        if learner.joint:
            raise Mistake(f"{plan.learner} learns all tasks at once, and an agent one after another")
        if store and store.learned:
            store.restore(learner, len(store.learned) - 1)
        return learner

    def play(
        self,
        name: str,
        env: str | None = None,
        episodes: int = EPISODES,
        *,
        target: float | None = None,
        video: str | Path | None = None,
    ) -> Evaluation:
        """Plays episodes of a learned task in its environment, or in another one with the same spaces.

        With `video`, the first episode is played once more for a video: a file that ends in .mp4, .webm or .gif.
        """
        if video is not None:
            check_video(Path(video))
        policy, record = self._acting(name, target)
        environment = env or record.environment
        if environment is None:
            raise Mistake(f"the environment of {name} is not known: name it with --env, or env= in Python")
        if env is None and ":" in environment:  # a stranger may have written the folder
            raise Mistake(
                f"the environment of {name}, {environment}, imports a module: name it with --env, or env= in Python, "
                "if you trust it"
            )
        film = None if video is None else Path(video)
        found = played(name, policy, record.read_layout(), environment, episodes=episodes, video=film)
        self.folder.event("play", task=name, environment=environment, mean=found.mean, episodes=episodes)
        return found


def budget_steps(budget: str) -> int:
    """The training steps of a budget."""
    if budget not in BUDGETS:
        raise Mistake(f"there is no budget {budget!r}; there are {', '.join(BUDGETS)}")
    return BUDGETS[budget]


def no_data(name: str) -> Dataset:
    """Raises: an agent keeps no data."""
    raise Mistake(f"this learner needs the data of {name} to learn another task, which an agent does not keep")
