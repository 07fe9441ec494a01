"""Tunes the numbers of a scripted Panda expert with CMA-ES, then scores it on new episodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, astuple, dataclass
from typing import Any, TypeVar

import gymnasium
import numpy as np

from holdfast.benchmarks.panda.arm import ARMS, make_environment
from holdfast.benchmarks.panda.experts import Expert, Pick, Push
from holdfast.data.validation import validate
from holdfast.errors import Mistake
from holdfast.tasks.experts import Say

Script = TypeVar("Script", bound=Push | Pick)

SCRIPTS: dict[str, Callable[[], Push | Pick]] = {"push": Push, "pick-and-place": Pick}
FRESH = 1_000_000_000  # first seed of scoring; tuning uses much smaller seeds


@dataclass(frozen=True)
class TuneConfig:
    """How an expert is tuned and scored."""

    episodes: int = 80
    """Episodes per candidate: the same for all candidates of a generation, new ones in the next generation."""
    generations: int = 40
    """Number of generations of CMA-ES; with 0 the expert is only scored."""
    population: int = 12
    """Number of candidates per generation."""
    spread: float = 0.1
    """Standard deviation of the first generation, relative to each number of the script."""
    failure: float = 3.0
    """Cost of a failed episode, on top of its return."""
    seed: int = 0
    """Seed of the search and of its episodes."""
    scored: int = 1000
    """Number of new episodes that the result is scored on."""

    def __post_init__(self) -> None:
        validate(self)
        if self.generations < 0 or min(self.episodes, self.scored) < 1 or self.population < 4:
            raise Mistake("tuning takes 0 generations or more of at least 4 candidates, and at least 1 episode of each")


@dataclass(frozen=True)
class Trial:
    """The result of one episode."""

    reward: float
    success: bool
    length: int


@dataclass(frozen=True)
class Score:
    """The results of many episodes, summarised."""

    mean: float
    median: float
    success: float
    length: float
    worst: float

    def __str__(self) -> str:
        return (
            f"mean {self.mean:.3f}, median {self.median:.3f}, worst {self.worst:.2f}, "
            f"success {self.success:.1%}, length {self.length:.2f}"
        )


def open_environment(task: str) -> gymnasium.Env[Any, Any]:
    """The simulator of `reach`, `push` or `pick-and-place`."""
    return make_environment(next(arm.environment for arm in ARMS.values() if arm.short == task))


def play_trial(env: gymnasium.Env[Any, Any], expert: Expert, seed: int) -> Trial:
    observation, _ = env.reset(seed=seed)
    total, length, ended = 0.0, 0, False
    while not ended:
        observation, reward, terminated, truncated, info = env.step(expert(observation))
        total += float(reward)
        length += 1
        ended = terminated or truncated
    return Trial(total, bool(info["is_success"]), length)


def score(env: gymnasium.Env[Any, Any], expert: Expert, seeds: Iterable[int]) -> Score:
    rewards, successes, lengths = zip(*(astuple(play_trial(env, expert, seed)) for seed in seeds), strict=True)
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
    settings: TuneConfig,
    say: Say = lambda line: None,
) -> Script:
    """Searches better numbers for the script."""
    try:
        import cma
    except ImportError:
        raise Mistake("cma is not installed: pip install 'holdfast[tune]'") from None

    def candidate(point: np.ndarray) -> Script:
        # The search is over logarithms: no number changes its sign, and one spread suits metres and gains.
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
        say(f"generation {generation}: best {min(costs):.3f}, median {np.median(costs):.3f}")
    return candidate(search.result.xfavorite)  # the mean of the search: the best of a noisy generation was lucky


def score_fresh(env: gymnasium.Env[Any, Any], expert: Expert, episodes: int) -> Score:
    """The score on this many episodes that are not used in tuning."""
    return score(env, expert, range(FRESH, FRESH + episodes))


def tune_script(task: str, settings: TuneConfig, say: Say) -> None:
    """Tunes the script and reports its numbers, then its score."""
    env, script = open_environment(task), SCRIPTS[task]()
    if settings.generations > 0:
        script = tune(env, script, settings, say)
        say("\n".join(f"    {name}: float = {number:.5g}" for name, number in asdict(script).items()))
    say(score_fresh(env, script, settings.scored))
    env.close()
