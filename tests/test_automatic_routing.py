"""An automatic threshold compares each score with a scale of its own, and opens a copy only if all are full."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from holdfast.agent.routes import route_reason
from holdfast.data.episodes import Dataset
from holdfast.data.normaliser import Normaliser
from holdfast.data.randomness import numpy_stream
from holdfast.errors import Mistake
from holdfast.learners.learner import windows_of
from holdfast.routing.affinities import ActionAffinity, HybridAffinity, LatentAffinity, relative
from holdfast.routing.distances import constant_loss, gaussian, halves_divergence, symmetric_kl
from holdfast.routing.route import Candidate, route_by_room
from holdfast.study.run_tables import evidence_table
from holdfast.tasks.suite import Suite, suite
from tests.tiny import tiny_learner, tiny_suite

AUTOMATIC = ["affinity-a", "affinity-l", "affinity-h"]
TRAINED = {"fit__steps": 100, "fit__learning_rate": 3e-3, "fit__batch": 32, "net__dropout": 0.0}


def candidates(*distances: float, full: tuple[int, ...] = ()) -> list[Candidate]:
    return [Candidate(f"T{at}", at, distance, {}, at in full) for at, distance in enumerate(distances)]


def test_a_near_task_is_the_source_in_its_copy():
    found = route_by_room("New", candidates(3.0, 0.4), 1.0, 2, far_source=None)
    assert (found.copy, found.opened, found.source, found.reason) == (1, False, "T1", "near enough")


def test_a_task_that_is_near_nothing_joins_the_nearest_copy_with_new_scores():
    found = route_by_room("New", candidates(3.0, 2.0, 9.0), 1.0, 3, far_source=None)
    assert (found.copy, found.opened, found.source, found.reason) == (1, False, None, "too far, so with new scores")


def test_where_new_entries_are_certain_a_far_task_is_a_source_too():
    found = route_by_room("New", candidates(3.0, 2.0, 9.0), 1.0, 3, far_source="nearest")
    assert (found.copy, found.opened, found.source) == (1, False, "T1")


def test_a_far_task_may_start_from_the_last_one_of_its_copy_and_a_near_one_from_the_nearest():
    inside = [Candidate(name, 0, distance, {}) for name, distance in (("A", 3.0), ("B", 2.0), ("C", 9.0))]
    elsewhere = Candidate("D", 1, 8.0, {})
    found = route_by_room("New", [*inside, elsewhere], 1.0, 2, far_source="last")
    assert (found.source, found.copy, found.opened) == ("C", 0, False)
    found = route_by_room("New", [*inside, elsewhere], 2.0, 2, far_source="last")
    assert (found.source, found.copy, found.opened) == ("B", 0, False)


def test_a_copy_is_opened_only_if_all_are_full():
    found = route_by_room("New", candidates(0.1, 2.0, full=(0,)), 1.0, 2, far_source=None)
    assert (found.copy, found.opened, found.source) == (1, False, None)
    found = route_by_room("New", candidates(0.1, 2.0, full=(0, 1)), 1.0, 2, far_source=None)
    assert (found.copy, found.opened, found.source, found.reason) == (2, True, None, "all copies are full")
    assert route_by_room("New", [], 1.0, 0, far_source=None).reason == "first task"
    with pytest.raises(Mistake, match="there is no room for New"):
        route_by_room("New", candidates(0.1, full=(0,)), 1.0, 1, 1, far_source="nearest")


def drawn_from(kind: str) -> list:
    task, learner = tiny_suite(kind).tasks[2], tiny_learner("affinity-a", tiny_suite(kind))
    windows = windows_of(task.dataset, Normaliser.identity(), task.interface.actions.active, learner.config, "cpu")
    rng = numpy_stream(0, "test")
    return [windows.sample(16, rng) for _ in range(3)]


def test_no_constant_policy_has_a_smaller_loss():
    """Continuous: squared errors over the dimensions of a task with fewer than the shared ones."""
    drawn = drawn_from("toy-continuous")
    actions = np.concatenate([batch.actions[batch.valid.bool()].numpy() for batch in drawn])[:, :1]  # a rail
    losses = [((actions - constant) ** 2).mean() for constant in np.linspace(-1, 1, 2001)]
    assert constant_loss(drawn) == pytest.approx(min(losses), rel=1e-3)
    assert constant_loss(drawn) <= min(losses)


def test_no_constant_distribution_of_discrete_actions_has_a_smaller_loss():
    drawn = drawn_from("toy")
    actions = np.concatenate([batch.actions[batch.valid.bool()].numpy() for batch in drawn])
    shares = np.bincount(actions) / len(actions)
    assert constant_loss(drawn) == pytest.approx(-np.log(shares[actions]).mean(), rel=1e-9)
    others = np.random.default_rng(0).dirichlet(np.ones(len(shares)), 100)
    assert all(constant_loss(drawn) < -np.log(other[actions]).mean() for other in others)


def test_other_latents_of_the_same_kind_are_within_the_halves_and_shifted_ones_are_not():
    rng = torch.Generator().manual_seed(0)
    memory = torch.randn(256, 8, generator=rng, dtype=torch.double)
    within = halves_divergence(memory, seed=0)
    affinity = LatentAffinity("auto")

    def distance(other: torch.Tensor) -> float:
        divergence = symmetric_kl(*gaussian(other), *gaussian(memory))
        return affinity.distances([{"latent": divergence, "halves": within}])[0][0]

    again = [distance(torch.randn(256, 8, generator=rng, dtype=torch.double)) for _ in range(50)]
    assert max(again) < 1
    assert distance(memory + 0.5) > 1
    assert distance(1000 * memory) > 1


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_distances_have_no_unit(scale):
    """Measured in other units, a score and its scale change alike."""
    action = {"action": 0.1 * scale, "constant": 0.4 * scale}
    latent = {"latent": 6.0 * scale, "halves": 2.0 * scale}
    assert ActionAffinity("auto").distances([action])[0] == pytest.approx([0.5])
    assert LatentAffinity("auto").distances([latent])[0] == pytest.approx([3.0])
    distances, threshold = HybridAffinity("auto", alpha=0.75).distances([{**action, **latent}] * 2)
    assert (distances, threshold) == (pytest.approx([0.75 * 0.5 + 0.25 * 3.0] * 2), 1.0)


def test_where_a_constant_is_right_only_what_is_right_as_well_is_near():
    exact, wrong = {"action": 0.0, "constant": 0.0}, {"action": 0.1, "constant": 0.0}
    assert ActionAffinity("auto").distances([exact, wrong])[0] == [0.0, float("inf")]


@pytest.mark.parametrize("kind", ["toy", "toy-continuous"])
def test_what_is_near_is_the_same_over_seeds(kind):
    near = [near_pairs(kind, seed) for seed in range(3)]
    by_actions = {("NorthWest", "SouthWest")} if kind == "toy-continuous" else set()  # on a rail, it moves as far left
    assert all(pairs == {"action": by_actions, "latent": set()} for pairs in near)


def near_pairs(kind: str, seed: int) -> dict[str, set[tuple[str, str]]]:
    """The pairs of a task and a learned one that are near by each score."""
    found = tiny_suite(kind)
    learner = tiny_learner("affinity-h", found, routing__threshold="auto", seed=seed, **TRAINED)
    for task in found.tasks:
        learner.learn(task)
    pairs = [(route["task"], candidate) for route in learner.routes() for candidate in route["candidates"]]
    assert learner.copies == 1
    return {
        name: {(task, candidate["task"]) for task, candidate in pairs if relative(candidate["parts"], name) <= 1}
        for name in ("action", "latent")
    }


@pytest.mark.parametrize("name", AUTOMATIC)
@pytest.mark.parametrize("kind", ["toy", "toy-continuous"])
def test_other_episodes_of_a_learned_task_are_near(name, kind):
    task = suite(kind, transitions=2_000).tasks[0]
    halves = [task.dataset.take(range(start, len(task.dataset), 2)) for start in (0, 1)]
    first, again = (replace(task, name=f"Half{at}", load=partial(_same, half)) for at, half in enumerate(halves))
    learner = tiny_learner(name, Suite(kind, (first, again)), routing__threshold="auto", **TRAINED)
    learner.learn(first)
    found = learner.route(again)
    assert (found.source, found.reason) == (first.name, "near enough")


def _same(dataset: Dataset) -> Dataset:
    return dataset


@pytest.mark.parametrize("name", AUTOMATIC)
def test_the_record_has_each_score_with_its_scale(name):
    suite = tiny_suite()
    learner = tiny_learner(name, suite, routing__threshold="auto")
    for task in suite.tasks[:2]:
        learner.learn(task)
    (candidate,) = learner.routes()[1]["candidates"]
    scales = {"affinity-a": ["constant"], "affinity-l": ["halves"], "affinity-h": ["constant", "halves"]}
    assert [part for part in candidate["parts"] if part in ("constant", "halves")] == scales[name]
    assert learner.routes()[1]["threshold"] == 1.0


@pytest.mark.parametrize("name", AUTOMATIC)
def test_with_a_share_of_new_entries_tasks_share_copies_until_they_are_full(name):
    suite = tiny_suite(tasks=4)
    settings = {"subnets__new": 0.5, "subnets__keep": 0.5, "routing__threshold": "auto"}
    learner = tiny_learner(name, suite, preset="paper", **settings)
    for task in suite.tasks:
        learner.learn(task)
    assert [route["copy"] for route in learner.routes()] == [0, 0, 1, 1]
    assert [route["source"] for route in learner.routes()] == [None, suite.names[0], None, suite.names[2]]
    assert learner.routes()[2]["reason"] == "all copies are full"


@pytest.mark.parametrize("name", ["tsn-replaykl", "random-routing", "independent"])
def test_only_scores_with_a_scale_have_an_automatic_threshold(name):
    with pytest.raises(Mistake, match=r"routing\.threshold must be a finite number, got 'auto'"):
        tiny_learner(name, routing__threshold="auto")


def test_the_evidence_is_a_table_with_the_scale_beside_each_score():
    near = {"task": "A", "copy": 0, "distance": 0.5, "parts": {"action": 0.1, "constant": 0.4}, "full": False}
    far = {**near, "task": "B", "distance": 5.0, "parts": {"action": 1.0, "constant": 0.4}, "full": True}
    route = {"task": "New", "candidates": [far, near], "threshold": 1.0, "source": "A", "copy": 0, "opened": False}
    table = evidence_table([{**route, "reason": "near enough"}])
    rows = list(zip(*([str(cell) for cell in column.cells] for column in table.columns), strict=True))
    assert table.columns[2].header == "action / constant"
    assert rows == [
        ("New", "A", "0.1 / 0.4", "0.5", "near, the source"),
        ("New", "B", "1 / 0.4", "5", "far, its copy is full"),
    ]
    published = [{**near, "parts": {"action": 0.5}}]
    assert evidence_table([{**route, "candidates": published, "reason": "near enough"}]) is None


def test_a_task_that_starts_from_new_scores_is_told_so():
    far = {"task": "A", "copy": 0, "distance": 5.0, "parts": {}, "full": False}
    route = {"task": "New", "candidates": [far], "threshold": 1.0, "source": None, "copy": 0, "opened": False}
    told = route_reason({**route, "reason": "too far, so with new scores"})
    assert told.startswith("New joined copy 0 and starts from new scores: the nearest task, A, is 5 away")
