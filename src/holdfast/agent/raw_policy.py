"""A policy that takes the raw observations of an environment and gives its raw actions."""

from typing import Any

from holdfast.agent.task_record import TaskRecord
from holdfast.data.layout import Layout
from holdfast.data.validation import validated
from holdfast.errors import Mistake
from holdfast.nets.policy import Policy


class RawPolicy:
    """A policy and the recorded layout of the data that it learned from; `reset` and `act` are those of a policy."""

    def __init__(self, policy: Policy, layout: Layout) -> None:
        check_layout(policy, layout)
        self.policy, self.layout = policy, layout

    def reset(self, count: int | None = None) -> None:
        """Starts one episode, or `count` episodes that are stepped together."""
        self.policy.reset(count)

    def act(self, observation: Any, reward: Any = 0.0) -> Any:
        """The environment's action for this observation; with several episodes, a row for each in every part."""
        if self.policy.single:
            return self.layout.decode_action(self.policy.act(self.layout.encode_observation(observation), reward))
        return self.layout.decode_actions(self.policy.act(self.layout.encode_observations(observation), reward))


def with_raw_rewards(policy: Policy, record: TaskRecord, target: float | None = None) -> Policy:
    """A policy of an agent's learner, to be given the environment's rewards; `target` is another return to ask for."""
    wanted = record.target if target is None else validated("the target", target, float)
    return Policy(policy.net, policy.normaliser, wanted, policy.return_scale / record.reward_scale)


def check_layout(policy: Policy, layout: Layout) -> None:
    """Raises unless the policy reads the observations of the layout."""
    if layout.observation != policy.interface.observation:
        raise Mistake(
            f"the layout makes observations of shape {layout.observation}, but the policy expects "
            f"{policy.interface.observation}: give the layout of the policy's own data"
        )
