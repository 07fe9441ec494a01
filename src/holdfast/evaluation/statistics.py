"""How sure a result is: 95 % confidence intervals, and a mean that outliers do not move.

A learner's results are runs, one per seed; a run is, for each task, the returns of its episodes. Bootstrap intervals
draw runs, then episodes within each task of a drawn run, both with replacement, and take percentiles; they are the
same at every call. One run tells what other episodes might give, not what another seed might, and three seeds are few.
Where returns are of several stages, an episode is drawn with what it earned at each of them: starts are the same.
"""

from collections.abc import Callable, Sequence

import numpy as np

Interval = tuple[float, float]
Returns = Sequence[float] | np.ndarray  # of a task's episodes, (episodes,) or (stages, episodes)
Run = Sequence[Returns]  # [task]
Measure = Callable[[np.ndarray], np.ndarray]  # of mean returns (..., tasks), numbers (...)

RESAMPLES = 5_000
Z = 1.959963984540054  # 95 % of a normal distribution lie within so many standard deviations


def resample(
    runs: Sequence[Run], distinct: Sequence[Sequence[int]] | None = None, resamples: int = RESAMPLES
) -> np.ndarray:
    """Mean returns as they might have been, (resamples, runs, tasks) or (resamples, runs, tasks, stages).

    Of a task's episodes as many are drawn as are distinct, for each run and task; by default all are.
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
            for stage in np.ndindex(values.shape[:-1]):
                means[(rows, task, *stage)] = values[stage][episodes].mean(axis=1)
    return means


def interval(drawn: np.ndarray, measure: Measure) -> Interval:
    """Of the mean over runs of a measure, from resampled mean returns."""
    return middle(measure(drawn).mean(axis=1))


def middle(values: np.ndarray) -> Interval:
    """Between what 95 % of the values lie."""
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


def task_mean(task: int) -> Measure:
    """The measure that is one task's mean return."""
    return lambda means: means[..., task]


def success_rate(successes: Sequence[bool], distinct: int) -> tuple[float, Interval]:
    """The share of episodes that succeeded, and its interval; the same episode twice is no more evidence."""
    rate = float(np.mean(successes))
    return rate, wilson(rate * distinct, distinct)


def wilson(successes: float, count: int) -> Interval:
    """Of a success rate (Wilson 1927); sensible also where every episode succeeded, or none."""
    rate, weight = successes / count, Z**2 / count
    middle = (rate + weight / 2) / (1 + weight)
    reach = Z / (1 + weight) * (rate * (1 - rate) / count + weight / (4 * count)) ** 0.5
    return max(0.0, middle - reach), min(1.0, middle + reach)


def interquartile_mean(values: Sequence[float] | np.ndarray) -> np.ndarray:
    """The mean of the middle half, over the last axis."""
    ordered = np.sort(values, axis=-1)
    cut = ordered.shape[-1] // 4
    return ordered[..., cut : ordered.shape[-1] - cut].mean(axis=-1)
