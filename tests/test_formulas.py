"""The publication's formulas, written a second time in plain NumPy: what the library computes is compared with them."""

from fractions import Fraction
from math import ceil, inf, nan
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from holdfast.agent.routes import route_reason
from holdfast.data.randomness import numpy_stream
from holdfast.learners.learner import windows_of
from holdfast.learners.sparse import TaskProbe
from holdfast.routing.affinities import HybridAffinity, LatentAffinity, finite_or_far, spread
from holdfast.routing.route import route
from holdfast.study.figures.routing import _distances
from holdfast.study.run_tables import routes_table
from holdfast.subnets.config import SubnetConfig
from holdfast.subnets.layout import Layout
from holdfast.subnets.quotas import next_task_counts
from tests.tiny import tiny_learner, tiny_suite

numbers = st.floats(0.0, 1e6)


def sum_of_losses(learner, task) -> tuple[float, int, list[float]]:
    """The losses of the only learned policy on the steps of a task's windows: their sum, their number, batch means."""
    (name,) = learner.learned
    source, affinity = learner.policy(name), learner.config.routing
    probe = TaskProbe(task, learner, affinity.memory)
    active = task.interface.actions.active
    windows = windows_of(task.dataset, source.normaliser, active, learner.config, "cpu")
    rng = numpy_stream(probe.seed, "action affinity")
    total, steps, means = 0.0, 0, []
    for _ in range(affinity.batches):
        batch = windows.sample(affinity.windows, rng)
        with torch.no_grad():
            predictions = source.net.predictions(batch).double().numpy()
        losses = loss_of_each_step(predictions, batch, active.numpy())[batch.valid.numpy()]
        total, steps = total + losses.sum(), steps + len(losses)
        means.append(losses.mean())
    return total, steps, means


def loss_of_each_step(predictions: np.ndarray, batch, active: np.ndarray) -> np.ndarray:
    """CE(y, a), or the squared error over the active dimensions, divided by their number."""
    if batch.actions.ndim == 2:
        chosen = np.take_along_axis(predictions, batch.actions.numpy()[..., None], axis=-1)[..., 0]
        return np.log(np.exp(predictions).sum(axis=-1)) - chosen
    return (((predictions - batch.actions.numpy()) * active) ** 2).sum(axis=-1) / active.sum()


@pytest.mark.parametrize("kind", ["toy", "toy-continuous"])
def test_action_affinity_is_the_mean_over_all_valid_steps_of_all_batches(kind):
    suite = tiny_suite(kind)
    few = {"routing__batches": 3, "routing__windows": 2, "net__context": 20, "fit__whole": False}
    learner = tiny_learner("affinity-a", suite, preset="paper", **few, fit__steps=100)
    learner.learn(suite.tasks[0])
    total, steps, means = sum_of_losses(learner, suite.tasks[1])
    found = learner.route(suite.tasks[1]).candidates[0].distance
    assert found == pytest.approx(total / steps, rel=1e-5)
    assert found != pytest.approx(np.mean(means), rel=1e-4)  # batches have different numbers of steps


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(numbers, numbers), min_size=2, max_size=6), st.integers(0, 100))
@example([(0.0, 1.0), (1.0, 0.0)], 70)  # in floats, 1 - 0.7 is a little over 0.3
def test_the_best_of_several_hybrid_candidates_is_never_farther_than_the_smaller_weight(scores, percent):
    alpha, smaller = percent / 100, min(percent, 100 - percent) / 100
    affinity = HybridAffinity(smaller, alpha=alpha)
    distances, threshold = affinity.distances([{"action": action, "latent": latent} for action, latent in scores])
    assert min(distances) <= threshold


def test_hybrid_at_the_smaller_weight_opens_no_copy_and_just_below_it_does():
    apart = [{"action": 0.0, "latent": 1.0}, {"action": 1.0, "latent": 0.0}]
    distances, threshold = HybridAffinity(0.3, alpha=0.7).distances(apart)
    assert (distances, threshold) == ([0.3, 0.7], 0.3)
    distances, threshold = HybridAffinity(0.29, alpha=0.7).distances(apart)
    assert min(distances) > threshold


def test_hybrid_by_hand():
    scores = [{"action": 2.0, "latent": 40.0}, {"action": 4.0, "latent": 10.0}, {"action": 3.0, "latent": 20.0}]
    distances, threshold = HybridAffinity(0.5, alpha=0.75).distances(scores)
    assert distances == pytest.approx([0.25, 0.75, 0.75 / 2 + 0.25 / 3])
    assert threshold == 0.5
    one, limit = HybridAffinity(0.5, alpha=0.75, action_threshold=4.0, latent_threshold=20.0).distances(scores[:1])
    assert (one, limit) == ([0.75 * 2 / 4 + 0.25 * 40 / 20], 1.0)


def test_a_score_that_is_not_finite_is_infinitely_far_and_leaves_the_others_as_they_are():
    assert finite_or_far([nan, 1.0, -inf, inf]) == [inf, 1.0, inf, inf]
    assert spread([inf, 3.0, 1.0]) == [inf, 1.0, 0.0]
    assert spread([inf, 2.0]) == [inf, 0.0]
    assert spread([inf, inf]) == [inf, inf]


class Fixed(LatentAffinity):
    """Scores that are given beforehand."""

    def parts(self, probe, learned):
        return {"latent": list(probe)}


class FixedHybrid(HybridAffinity):
    """The same for two scores."""

    def parts(self, probe, learned):
        return {"action": list(probe), "latent": [1.0 + place for place in range(len(learned))]}


@pytest.mark.parametrize("affinity", [Fixed(0.5), FixedHybrid(0.5), FixedHybrid(0.5, alpha=0.0)])
def test_a_distance_that_could_not_be_computed_hides_no_near_candidate_and_is_null_in_the_record(affinity):
    suite = tiny_suite()
    learner = tiny_learner("affinity-l", suite)
    for task in suite.tasks:
        learner.learn(task)
    sources = [learner._source(name) for name in suite.names]
    candidates, threshold = affinity.candidates((nan, 0.1, 0.2), sources)  # type: ignore[arg-type]
    found = route("New", candidates, threshold, learner.copies)
    assert found.source == suite.names[1]
    record = found.record()
    assert [told["distance"] for told in record["candidates"]] == [None, *[told.distance for told in candidates[1:]]]
    assert None in record["candidates"][0]["parts"].values()


def test_a_distance_that_could_not_be_computed_is_shown_as_infinite():
    far = {"task": "A", "copy": 0, "distance": None, "parts": {"latent": None}, "full": False}
    told = {"task": "B", "candidates": [far], "threshold": 2.5, "source": None, "copy": 1, "opened": True}
    told["reason"] = "too far"
    assert route_reason(told) == "B opened copy 1: the nearest task, A, is ∞ away, and 2.5 is allowed (too far)."
    near = {**far, "task": "C", "distance": 2.0}
    assert "nearest task, C, is 2 away" in route_reason({**told, "candidates": [far, near]})
    assert [str(cell) for cell in routes_table([told]).columns[3].cells] == ["A ∞"]


@pytest.mark.parametrize("known", [[], [2.0, 3.0]])
def test_a_distance_that_could_not_be_computed_is_left_out_of_the_figure(known):
    distances = [None, *known]
    candidates = [{"task": f"T{place}", "copy": 0, "distance": far} for place, far in enumerate(distances)]
    axes = Figure().subplots()
    tasks = [candidate["task"] for candidate in candidates]
    _distances(axes, SimpleNamespace(tasks=tasks), [{"task": "New", "candidates": candidates, "threshold": 2.5}])
    assert [line.get_xdata()[0] for line in axes.get_lines()] == [2.5, *known]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=5), st.integers(1, 100), st.integers(1, 6), st.data())
def test_shares_are_the_ceilings_of_the_publications_formula(sizes, percent, tasks, data):
    free = [data.draw(st.integers(0, size)) for size in sizes]
    held = data.draw(st.integers(0, tasks - 1))
    layout = Layout(tuple(f"t{place}" for place in range(len(sizes))), tuple((size,) for size in sizes))
    keep = Fraction(percent, 100)
    config = SubnetConfig(keep=percent / 100)
    assert next_task_counts(config, layout, free, held) == [ceil(keep * size) for size in sizes]
    config = SubnetConfig(keep=percent / 100, reuse=False)
    assert next_task_counts(config, layout, free, held) == [ceil(keep * count) for count in free]
    config = SubnetConfig(schedule="equal_remaining", tasks=tasks)
    assert next_task_counts(config, layout, free, held) == [-(-count // (tasks - held)) for count in free]
