"""What a new agent is, unless its user says otherwise."""

from types import MappingProxyType

from holdfast.agent.configure import HOLDFAST, apply, default_config
from holdfast.agent.plan import AgentPlan
from holdfast.tasks.suite import Settings

LEARNER, BACKBONE = "affinity-l", "dt"
SETTINGS: Settings = MappingProxyType(
    {
        **HOLDFAST,
        "net.timesteps": "waves",  # a table of timesteps would be the largest part of every task
        "fit.whole": False,
        "fit.learning_rate": 1e-3,
        "fit.schedule": "one-cycle",
    }
)


def plan_of(learner: str, backbone: str, seed: int, settings: Settings) -> AgentPlan:
    """The plan of a new agent."""
    plan = AgentPlan(default_config(learner, backbone), learner, backbone, seed)
    return apply(apply(plan, SETTINGS), settings)
