"""The mean return of uniform random actions: the lower reference score of the data.

python -m holdfast.benchmarks.panda.random_returns
"""

import numpy as np

from holdfast.benchmarks.panda.arm import ARMS, ArmTask, make_environment
from holdfast.benchmarks.panda.tune import score

# Means over 1,000 episodes, seeds 0 to 999, with exact resets; standard error 0.15.
RANDOM_RETURNS = {"PandaReach": -10.041, "PandaPush": -8.174, "PandaPickAndPlace": -9.824}


def measure(arm: ArmTask, episodes: int = 1_000) -> float:
    """The mean return of actions drawn uniformly from the unit box."""
    env, rng = make_environment(arm.environment), np.random.default_rng(0)
    result = score(env, lambda _: rng.uniform(-1, 1, arm.actions).astype(np.float32), range(episodes))
    env.close()
    return result.mean


if __name__ == "__main__":
    for arm in ARMS.values():
        print(f"{arm.task} {measure(arm):.3f}")  # noqa: T201
