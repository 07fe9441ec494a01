"""Routing: a pure decision on distances, and distances that a hand can check."""

import numpy as np
import pytest
import torch

from holdfast.data.randomness import numpy_stream
from holdfast.learners.learner import windows_of
from holdfast.learners.sparse import TaskProbe
from holdfast.routing.affinities import HybridAffinity, spread
from holdfast.routing.distances import latent_statistics, replay_distance, symmetric_kl
from holdfast.routing.route import Candidate, only_copy, route
from tests.tiny import tiny_learner, tiny_suite


def candidates(*distances: float) -> list[Candidate]:
    return [Candidate(f"T{index}", index, distance, {}) for index, distance in enumerate(distances)]


def test_the_first_task_opens_the_first_copy():
    found = route("New", [], 10.0, copies=0)
    assert (found.copy, found.opened, found.source, found.reason) == (0, True, None, "first task")


def test_the_nearest_task_within_the_threshold_is_the_source():
    found = route("New", candidates(12.0, 8.4, 9.0), 10.0, copies=3)
    assert (found.copy, found.opened, found.source) == (1, False, "T1")


def test_a_distance_equal_to_the_threshold_is_near_enough():
    assert route("New", candidates(10.0), 10.0, copies=1).source == "T0"


def test_beyond_the_threshold_a_new_copy_is_opened_and_nothing_is_its_source():
    found = route("New", candidates(17.1), 10.0, copies=1)
    assert (found.copy, found.opened, found.source, found.reason) == (1, True, None, "too far")


def test_where_no_copy_is_left_the_nearest_is_taken():
    found = route("New", candidates(17.1, 16.0), 10.0, copies=2, max_copies=2)
    assert (found.copy, found.opened, found.source) == (1, False, "T1")


def test_the_record_holds_all_evidence():
    record = route("New", candidates(17.1, 16.0), 10.0, copies=2).record()
    assert [found["distance"] for found in record["candidates"]] == [17.1, 16.0]
    assert record["threshold"] == 10.0


def test_one_copy_for_all_needs_no_evidence():
    assert only_copy("A", 0, opened=True).opened
    assert not only_copy("B", 0, opened=False).opened


def hybrid_routes(affinity: HybridAffinity, tasks: list[list[tuple[float, float]]]) -> int:
    """How many copies there are after tasks with these (action, latent) scores of their candidates."""
    copies = 1
    for scores in tasks:
        distances, threshold = affinity.distances([{"action": a, "latent": l} for a, l in scores])  # noqa: E741
        copies += route("New", candidates(*distances), threshold, copies).opened
    return copies


# Scores like those of the published Atari runs: all of them far beyond tau_A = 10 and tau_L = 35.
ATARI = [
    [(17.1, 389.0)],
    [(15.0, 200.0), (14.5, 144.0)],
    [(12.0, 60.0), (16.0, 90.0), (11.0, 36.0)],
    [(11.2, 50.0), (12.0, 44.0), (14.0, 120.0), (13.0, 46.0)],
]


@pytest.mark.parametrize(("threshold", "alpha"), [(0.5, 0.7), (0.5, 0.5), (0.55, 0.8)])
def test_hybrid_collapses_as_published_because_the_best_candidate_is_always_near(threshold, alpha):
    loose = HybridAffinity(threshold, alpha=alpha, action_threshold=20.0, latent_threshold=400.0)
    assert hybrid_routes(loose, ATARI) == 1
    # The second task alone is compared directly, and can open a copy; after it, scaling makes the best at most
    # min(alpha, 1 - alpha) far, whatever the scores.
    strict = HybridAffinity(threshold, alpha=alpha, action_threshold=10.0, latent_threshold=35.0)
    assert hybrid_routes(strict, ATARI) == 2


def test_hybrid_can_open_copies_below_the_smaller_weight():
    strict = HybridAffinity(0.1, alpha=0.5, action_threshold=10.0, latent_threshold=35.0)
    assert hybrid_routes(strict, [[(17.0, 389.0)], [(10.0, 90.0), (20.0, 40.0)]]) == 3


def test_hybrid_with_one_candidate_compares_the_direct_scores_with_one():
    affinity = HybridAffinity(0.5, alpha=0.25, action_threshold=10.0, latent_threshold=40.0)
    assert affinity.distances([{"action": 5.0, "latent": 80.0}]) == ([0.25 * 0.5 + 0.75 * 2.0], 1.0)


def test_spread_goes_from_zero_to_one_and_equal_scores_are_all_zero():
    assert spread([3.0, 1.0, 2.0]) == [1.0, 0.0, 0.5]
    assert spread([2.0, 2.0]) == [0.0, 0.0]


def test_symmetric_kl_by_hand():
    # N(0, 1) and N(1, 4): KL(p|q) = ln 2 + 2/8 - 1/2, KL(q|p) = -ln 2 + 5/2 - 1/2; their mean is 0.875.
    assert symmetric_kl(*(torch.tensor([x]) for x in (0.0, 1.0, 1.0, 4.0))) == pytest.approx(0.875)
    assert symmetric_kl(*(torch.tensor([x] * 3) for x in (0.0, 1.0, 1.0, 4.0))) == pytest.approx(3 * 0.875)


def test_replay_kl_by_hand():
    learned, new = torch.log(torch.tensor([[0.5, 0.5]])), torch.log(torch.tensor([[0.25, 0.75]]))
    expected = 0.5 * np.log(0.5 / 0.25) + 0.5 * np.log(0.5 / 0.75)
    assert replay_distance(learned, new) == pytest.approx(expected, rel=1e-6)
    assert replay_distance(learned.repeat(5, 1), new) == pytest.approx(expected, rel=1e-6)  # as many pairs as there are


def test_replay_kl_takes_bytes_as_shades_between_zero_and_one():
    white, black = torch.full((1, 2), 255, dtype=torch.uint8), torch.tensor([[0, 255]], dtype=torch.uint8)
    p = np.exp([0.0, 1.0]) / np.exp([0.0, 1.0]).sum()
    assert replay_distance(white, black) == pytest.approx(0.5 * np.log(0.5 / p[0]) + 0.5 * np.log(0.5 / p[1]))


def test_action_affinity_is_the_source_policys_loss_on_the_new_data():
    suite = tiny_suite()
    learner = tiny_learner("affinity-a", suite, routing__threshold=1e9, fit__steps=300, fit__learning_rate=3e-3)
    learner.learn(suite.tasks[0])
    same, other = learner.route(suite.tasks[0]), learner.route(suite.tasks[1])
    assert same.candidates[0].distance < 0.5 < other.candidates[0].distance  # it explains its own data, not the other's


def test_action_affinity_is_measured_under_the_sources_normaliser():
    suite = tiny_suite("toy-continuous")
    learner = tiny_learner("affinity-a", suite, preset="paper", routing__batches=1, routing__windows=50)
    learner.learn(suite.tasks[0])
    source, task = learner.policy(suite.names[0]), suite.tasks[1]
    probe = TaskProbe(task, learner, 256)

    def loss(normaliser):
        windows = windows_of(task.dataset, normaliser, task.interface.actions.active, learner.config, "cpu")
        batch = windows.sample(50, numpy_stream(probe.seed, "action affinity"))
        with torch.no_grad():
            return float(source.net(batch))

    own = task.interface.normaliser(task.dataset)
    assert learner.route(task).candidates[0].distance == pytest.approx(loss(source.normaliser), rel=1e-6)
    assert loss(own) != pytest.approx(loss(source.normaliser), rel=1e-3)


def test_latent_affinity_is_between_gaussians_of_what_the_sources_encoder_sees():
    suite = tiny_suite("toy-continuous")
    learner = tiny_learner("affinity-l", suite, preset="paper")
    learner.learn(suite.tasks[0])
    source = learner.policy(suite.names[0])

    def gaussian(task):
        probe = TaskProbe(task, learner, 256)
        with torch.no_grad():
            latents = source.net.encoder(source.normaliser(probe.observations)).double()
        return latents.mean(dim=0), latents.var(dim=0, correction=0)

    expected = symmetric_kl(*gaussian(suite.tasks[1]), *gaussian(suite.tasks[0]))
    assert learner.route(suite.tasks[1]).candidates[0].distance == pytest.approx(expected, rel=1e-6)


def test_a_latent_that_never_moves_has_the_smallest_variance():
    suite = tiny_suite()
    learner = tiny_learner("affinity-l", suite)
    learner.learn(suite.tasks[0])
    probe = TaskProbe(suite.tasks[0], learner, 256)
    probe.observations = probe.observations[:1].expand(10, -1)
    (found,) = latent_statistics(probe, [learner._source(suite.names[0])])
    assert (found["variance"] == 1e-6).all()


@pytest.mark.parametrize("kind", ["toy", "toy-continuous"])
def test_many_learned_tasks_are_compared_in_one_pass_as_each_would_be_alone(kind):
    suite = tiny_suite(kind, 4)
    learner = tiny_learner("affinity-h", suite, routing__max_copies=2)
    for task in suite.tasks[:3]:
        learner.learn(task)
    together = learner.route(suite.tasks[3]).candidates
    roles = dict(learner.roles)
    for name, found in zip(roles, together, strict=True):
        learner.roles = {name: roles[name]}
        alone = learner.route(suite.tasks[3]).candidates[0]
        assert alone.parts == pytest.approx(found.parts, rel=1e-5)


@pytest.mark.parametrize("name", ["affinity-l", "tsn-replaykl"])
def test_a_task_is_at_distance_zero_from_itself(name):
    suite = tiny_suite()
    learner = tiny_learner(name, suite)
    learner.learn(suite.tasks[0])
    assert learner.route(suite.tasks[0]).candidates[0].distance == pytest.approx(0.0, abs=1e-9)


def test_a_route_changes_nothing():
    suite = tiny_suite()
    learner = tiny_learner("affinity-h", suite)
    learner.learn(suite.tasks[0])
    assert learner.route(suite.tasks[1]) == learner.route(suite.tasks[1])
    assert learner.learned == suite.names[:1]


def test_a_warm_start_begins_from_the_sources_mask_and_a_fresh_copy_does_not():
    suite = tiny_suite(tasks=2)
    near = tiny_learner("affinity-l", suite, routing__threshold=1e12, subnets__warm_start=100.0)
    for task in suite.tasks:
        near.learn(task)
    first, second = near.subnetworks.values()
    assert torch.equal(first.mask, second.mask)  # too strong to leave in a few steps
    far = tiny_learner("affinity-l", suite, routing__threshold=0.0, subnets__warm_start=100.0)
    for task in suite.tasks:
        far.learn(task)
    first, second = far.subnetworks.values()
    assert (first.copy, second.copy) == (0, 1)
    assert not torch.equal(first.mask, second.mask)
