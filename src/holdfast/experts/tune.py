"""Tunes a Panda script's numbers with CMA-ES, then scores it on episodes it was not tuned on.

python -m holdfast.experts.tune push --episodes 80 --generations 40
python -m holdfast.experts.tune reach --generations 0    # only scores the expert as it stands
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, astuple, dataclass
from typing import Annotated, Any, Literal, TypeVar

import gymnasium
import numpy as np
import tyro

from holdfast.experts.panda import Expert, Pick, Push, Reach
from holdfast.suites.panda import make

Script = TypeVar("Script", bound=Push | Pick)
Name = Literal["reach", "push", "pick"]

ENVIRONMENTS: dict[Name, str] = {
    "reach": "PandaReachDense-v3",
    "push": "PandaPushDense-v3",
    "pick": "PandaPickAndPlaceDense-v3",
}
EXPERTS: dict[Name, Callable[[], Reach | Push | Pick]] = {"reach": Reach, "push": Push, "pick": Pick}
FRESH = 1_000_000_000  # scores begin at this seed; tuning stays far below


@dataclass(frozen=True)
class Settings:
    """How an expert is tuned and scored."""

    task: Annotated[Name, tyro.conf.Positional]
    episodes: int = 80
    """Episodes of each candidate; all candidates of a generation start the same ones, the next generation new ones."""
    generations: int = 40
    """None at all only scores."""
    population: int = 12
    spread: float = 0.1
    """First standard deviation of every number, relative to the number."""
    failure: float = 3.0
    """What a failed episode costs on top of its return, which is never cut: the tail is what tuning must see."""
    seed: int = 0
    scored: int = 1000
    """Fresh episodes of the score."""


@dataclass(frozen=True)
class Outcome:
    """One episode."""

    reward: float
    success: bool
    length: int


@dataclass(frozen=True)
class Score:
    """Many episodes."""

    mean: float
    median: float
    success: float
    length: float
    worst: float


def open_environment(task: Name) -> gymnasium.Env[Any, Any]:
    return make(ENVIRONMENTS[task])


def play(env: gymnasium.Env[Any, Any], expert: Expert, seed: int) -> Outcome:
    observation, _ = env.reset(seed=seed)
    total, length, ended = 0.0, 0, False
    while not ended:
        observation, reward, terminated, truncated, info = env.step(expert(observation))
        total, length, ended = total + float(reward), length + 1, terminated or truncated
    return Outcome(total, bool(info["is_success"]), length)


def score(env: gymnasium.Env[Any, Any], expert: Expert, seeds: Iterable[int]) -> Score:
    rewards, successes, lengths = zip(*(astuple(play(env, expert, seed)) for seed in seeds), strict=True)
    return Score(
        mean=float(np.mean(rewards)),
        median=float(np.median(rewards)),
        success=float(np.mean(successes)),
        length=float(np.mean(lengths)),
        worst=min(rewards),
    )


def tune(
    env: gymnasium.Env[Any, Any],
    script: Script,
    settings: Settings,
    report: Callable[[str], object] = lambda line: None,
) -> Script:
    """The script with better numbers."""
    import cma

    def candidate(point: np.ndarray) -> Script:
        # A number is searched by its logarithm: none changes sign, and one spread suits metres and gains alike.
        return type(script)(*(float(number) for number in np.array(astuple(script)) * np.exp(point)))

    def cost(point: np.ndarray, seeds: range) -> float:
        result = score(env, candidate(point), seeds)
        return settings.failure * (1 - result.success) - result.mean

    options = {"seed": settings.seed + 1, "popsize": settings.population, "verbose": -9}
    search = cma.CMAEvolutionStrategy(np.zeros(len(astuple(script))), settings.spread, options)
    for generation in range(settings.generations):
        first = settings.seed * 10_000_000 + generation * settings.episodes
        points = search.ask()
        costs = [cost(point, range(first, first + settings.episodes)) for point in points]
        search.tell(points, costs)
        report(f"generation {generation}: best {min(costs):.3f}, median {np.median(costs):.3f}")
    return candidate(search.result.xfavorite)  # the mean, for the best of a noisy generation was lucky


def main(settings: Settings) -> None:
    def report(line: object) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    env, expert = open_environment(settings.task), EXPERTS[settings.task]()
    if settings.generations > 0:
        if isinstance(expert, Reach):
            raise SystemExit("reach is a network, trained by `python -m holdfast.experts.reach`; use --generations 0")
        expert = tune(env, expert, settings, report)
        report("\n".join(f"    {name}: float = {number:.5g}" for name, number in asdict(expert).items()))
    report(score(env, expert, range(FRESH, FRESH + settings.scored)))
    env.close()


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
