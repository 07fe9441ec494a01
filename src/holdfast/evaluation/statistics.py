"""Statistics of results: 95 % confidence intervals and interquartile means.

A learner's results are runs, one per seed; a run is, for each task, the returns of its episodes. Bootstrap intervals
draw runs, then episodes within each task of a drawn run, both with replacement, and take percentiles; they are
deterministic. The interval of one run covers other episodes, not other seeds, and three seeds are few. If returns are
of several stages, an episode is drawn with its returns at all stages, because its start is the same at each.
"""

from collections.abc import Callable, Sequence

import numpy as np

Interval = tuple[float, float]
Returns = Sequence[float] | np.ndarray  # of a task's episodes, (episodes,) or (stages, episodes)
Run = Sequence[Returns]  # [task]
Measure = Callable[[np.ndarray], np.ndarray]  # from mean returns (..., tasks) to numbers (...)

RESAMPLES = 5_000
Z = 1.959963984540054  # 95 % of a normal distribution are within this many standard deviations


def resample(
    runs: Sequence[Run], distinct: Sequence[Sequence[int]] | None = None, resamples: int = RESAMPLES
) -> np.ndarray:
    """Bootstrap resamples of mean returns, (resamples, runs, tasks) or (resamples, runs, tasks, stages).

    For each run and task, as many episodes are drawn as there are distinct ones; by default as many as there are.
    """
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(runs), size=(resamples, len(runs)))
    means = np.empty((*drawn.shape, len(runs[0]), *np.shape(runs[0][0])[:-1]))
    for number, run in enumerate(runs):
        rows = drawn == number
        for task, returns in enumerate(run):
            values = np.asarray(returns, np.float64)
            count = distinct[number][task] if distinct else values.shape[-1]
            episodes = rng.integers(values.shape[-1], size=(np.count_nonzero(rows), count))
            means[rows, task] = _drawn_means(values, episodes)
    return means


def _drawn_means(values: np.ndarray, episodes: np.ndarray) -> np.ndarray:
    """Means of drawn episodes (draws, drawn): (draws,) of values (episodes,), or (draws, stages) of several stages."""
    if values.ndim == 1:
        return values[episodes].mean(axis=1)
    found: dict[bytes, np.ndarray] = {}  # many stages have equal values
    for stage in values:
        if stage.tobytes() not in found:
            found[stage.tobytes()] = stage[episodes].mean(axis=1)
    return np.stack([found[stage.tobytes()] for stage in values], axis=1)


def interval(drawn: np.ndarray, measure: Measure) -> Interval:
    """The interval of a measure's mean over runs, from resampled mean returns."""
    return middle(measure(drawn).mean(axis=1))


def middle(values: np.ndarray) -> Interval:
    """The bounds of the central 95 % of the values."""
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


def task_mean(task: int) -> Measure:
    """The mean return of one task, as a measure."""
    return lambda means: means[..., task]


def success_rate(successes: Sequence[bool], distinct: int) -> tuple[float, Interval]:
    """The share of episodes that succeeded, and its interval; only distinct episodes count as evidence."""
    rate = float(np.mean(successes))
    return rate, wilson(rate * distinct, distinct)


def wilson(successes: float, count: int) -> Interval:
    """The interval of a success rate (Wilson 1927); also valid if all episodes succeeded, or none."""
    rate, weight = successes / count, Z**2 / count
    middle = (rate + weight / 2) / (1 + weight)
    reach = Z / (1 + weight) * (rate * (1 - rate) / count + weight / (4 * count)) ** 0.5
    return max(0.0, middle - reach), min(1.0, middle + reach)


def interquartile_mean(values: Sequence[float] | np.ndarray) -> np.ndarray:
    """The mean of the middle half, over the last axis."""
    ordered = np.sort(values, axis=-1)
    cut = ordered.shape[-1] // 4
    return ordered[..., cut : ordered.shape[-1] - cut].mean(axis=-1)
