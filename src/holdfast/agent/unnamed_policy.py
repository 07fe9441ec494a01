"""A policy without a name: the first observation of an episode says which learned task acts."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from holdfast.agent.identify import Identification, KnownTask, identify
from holdfast.agent.raw_policy import RawPolicy
from holdfast.data.raw_episodes import mapped
from holdfast.errors import Mistake


class UnnamedPolicy:
    """Recognises the task at the first step after `reset`, and then acts exactly as the policy of that task."""

    def __init__(self, known: Iterable[KnownTask]) -> None:
        self.known = {task.name: task for task in known}
        self.begun = False
        self.acting: RawPolicy | None = None
        self.identification: Identification | None = None
        """What the first observation was compared with; None before it is seen."""

    @property
    def task(self) -> str | None:
        """The task that was recognised; None before the first observation, or if it is none of the learned ones."""
        return self.identification.task if self.identification else None

    def reset(self, count: int | None = None) -> None:
        """Starts one episode, or `count` episodes of one task that are stepped together: the first one tells it."""
        self.count, self.begun = count, True
        self.acting, self.identification = None, None

    def act(self, observation: Any, reward: Any = 0.0) -> Any:
        """The environment's action for this observation; raises if the first one is like that of no learned task."""
        if not self.begun:
            raise Mistake("a policy must be reset before it acts")
        if self.acting is None:
            self.acting = self._recognised(observation)
        return self.acting.act(observation, reward)

    def _recognised(self, observation: Any) -> RawPolicy:
        first = [observation] if self.count is None else mapped(lambda part: np.asarray(part)[:1], observation)
        self.identification = identify(self.known.values(), first)
        if self.identification.task is None:
            raise Mistake(f"{self.identification.reason}; policy(NAME) acts all the same")
        policy = self.known[self.identification.task].raw_policy()
        policy.reset(self.count)
        return policy
