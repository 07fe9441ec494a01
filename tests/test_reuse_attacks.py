"""What a plan, a preview or a score says of reuse is true for unusual settings too."""

import random
import re
from collections.abc import Callable
from dataclasses import replace
from math import inf, isfinite
from time import perf_counter

import pytest
import torch

from holdfast.agent.preview import Alternative, previewed, warnings
from holdfast.errors import Mistake
from holdfast.learners.sparse import Sparse
from holdfast.learners.subnetworks import Room
from holdfast.routing.affinities import HybridAffinity
from holdfast.routing.route import Candidate
from holdfast.runs.run import run
from holdfast.subnets.config import SubnetConfig
from holdfast.subnets.layout import Layout
from holdfast.subnets.quantise import quantise
from holdfast.subnets.quotas import check_room, free_entries, selected_counts, task_counts
from holdfast.subnets.stored_masks import DEFLATED, PLAIN
from holdfast.tasks.task import Task
from tests.agents import learn, new_agent
from tests.test_learner_contract import fingerprints, same
from tests.test_quotas import LAYOUT
from tests.tiny import QUIET, SPARSE, tiny_learner, tiny_suite

# Plans


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("tsn-core", {"subnets__new": "planned", "subnets__tasks": 2}),
        ("tsn-core", {"subnets__reuse": False, "subnets__keep": 0.9, "subnets__tasks": 1}),
        ("affinity-l", {"subnets__new": "auto", "subnets__tasks": 1, "routing__max_copies": 2}),
    ],
)
def test_a_run_of_more_tasks_than_its_copies_can_hold_is_refused_before_its_first(tmp_path, name, settings):
    suite = tiny_suite(tasks=3)
    with pytest.raises(Mistake, match=r"a copy is planned for|would select nothing"):
        run(suite, tiny_learner(name, suite, **settings), tmp_path / "run", QUIET)
    assert not (tmp_path / "run").exists()


def test_copies_that_are_planned_for_fewer_tasks_than_the_run_has_hold_them_together():
    config = SubnetConfig(new="planned", tasks=2)
    check_room(config, LAYOUT, copies=2, tasks=4)
    with pytest.raises(Mistake, match="a copy is planned for 2 tasks"):
        check_room(config, LAYOUT, copies=2, tasks=5)


def test_a_plan_for_very_many_tasks_is_checked_at_once():
    begin = perf_counter()
    check_room(SubnetConfig(new="planned", tasks=10**6), LAYOUT)
    assert perf_counter() - begin < 5


def test_the_message_has_the_planned_number_also_where_packs_have_added_tasks():
    with pytest.raises(Mistake, match="a copy is planned for 2 tasks"):
        selected_counts(SubnetConfig(new="planned", tasks=2), LAYOUT, [50, 5], held=3)


def test_a_task_that_would_select_nothing_at_all_is_refused_whatever_data_it_has():
    config = SubnetConfig(new="auto", schedule="equal_remaining")  # planned for one task, as in an agent
    with pytest.raises(Mistake, match="a copy with 1 tasks has too few free entries"):
        selected_counts(config, LAYOUT, [0, 0], held=1, transitions=100)


def test_a_task_without_room_is_told_why_where_other_interfaces_have_copies_of_their_own(tmp_path):
    settings = {"subnets__new": "planned", "subnets__tasks": 1, "routing__max_copies": 1}
    agent = new_agent(tmp_path / "agent", **settings)
    learn(agent, "swing", "pendulum")
    learn(agent, "balance", "cartpole")  # the second copy, and the only one with its interface
    with pytest.raises(Mistake, match=r"all copies are full, and routing\.max_copies allows no other: raise it"):
        learn(agent, "swing-2", "pendulum")


# Previews


def test_a_preview_of_a_task_that_would_be_refused_says_the_same_sentence():
    suite = tiny_suite(tasks=3)
    for settings in ({"subnets__new": 0.5, "subnets__keep": 0.5}, {"subnets__new": "planned", "subnets__tasks": 2}):
        learner = tiny_learner("tsn-core", suite, **settings)
        for task in suite.tasks[:2]:
            learner.learn(task)
        with pytest.raises(Mistake) as refusal:
            learner.learn(suite.tasks[2])
        with pytest.raises(Mistake, match=re.escape(str(refusal.value))):
            previewed(learner, suite.tasks[2], None, None, ())


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"subnets__private": 1.0},
        {"subnets__outside": "frozen"},
        {"subnets__outside": "shared", "subnets__biases": "outside"},
        {"subnets__quantise_bits": 2},
        {"subnets__quantise_bits": 4, "subnets__private": 0.5},
        {"subnets__keep": 0.05},
        {"subnets__new": None, "subnets__keep": 1.0},
        {"subnets__new": None, "subnets__warm_start": 2.0},
        {"subnets__new": None, "subnets__warm_start": 0.0},
    ],
)
@pytest.mark.parametrize("name", ["affinity-l", "tsn-replaykl"])
def test_the_bytes_that_a_preview_expects_are_near_those_that_are_then_stored(name, settings):
    suite = tiny_suite()
    wide = {"net__width": 48, "subnets__new": "planned", "routing__max_copies": 1}
    learner = tiny_learner(name, suite, **{**wide, **settings}, fit__steps=2)
    for task in suite.tasks:
        expected, before = learner.expected_bytes(task, learner.route(task)), learner.snapshot().bytes()["weights"]
        learner.learn(task)
        assert expected == pytest.approx(learner.snapshot().bytes()["weights"] - before, rel=0.03)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"subnets__new": 0.0, "subnets__private": 0.3},
        {"subnets__new": "planned", "subnets__outside": "frozen"},
        {"subnets__new": "planned", "subnets__outside": "shared"},
        {"subnets__new": None, "subnets__keep": 1.0},
    ],
)
@pytest.mark.parametrize("name", SPARSE)
def test_but_for_masks_the_bytes_that_a_preview_expects_are_those_that_are_stored(name, settings, monkeypatch):
    monkeypatch.setattr("holdfast.subnets.expected.mask_bytes", lambda selected, total: 0)
    suite = tiny_suite()
    learner = tiny_learner(name, suite, **{"subnets__new": 0.5, "subnets__biases": "outside", **settings}, fit__steps=2)
    for task in suite.tasks:
        expected, before = learner.expected_bytes(task, learner.route(task)), bytes_without_masks(learner)
        learner.learn(task)
        assert expected == bytes_without_masks(learner) - before


def bytes_without_masks(learner: Sparse) -> int:
    """The bytes of what acts, but for the masks of subnetworks and of changes."""
    tensors = {(file, name): one for file, ones in learner.snapshot().weights.items() for name, one in ones.items()}
    return sum(one.nbytes for (_, name), one in tensors.items() if name.split("/")[-1] not in (PLAIN, DEFLATED))


@pytest.mark.parametrize("start", ["fresh", "last"])
def test_the_bytes_of_a_copy_that_is_opened_are_those_of_the_horizon_that_it_gets(start):
    suite = tiny_suite(tasks=2)
    settings = {"subnets__new_copy": start, "subnets__biases": "outside", "net__timesteps": "table"}
    learner = tiny_learner("independent", suite, **settings, fit__steps=2)
    long, short = suite.tasks
    long = replace(long, interface=replace(long.interface, horizon=400))
    for task in (long, short):
        expected, before = learner.expected_bytes(task, learner.route(task)), learner.snapshot().bytes()["weights"]
        learner.learn(task)
        assert expected == pytest.approx(learner.snapshot().bytes()["weights"] - before, rel=0.05)


@pytest.mark.parametrize("start", ["fresh", "last"])
def test_the_other_decision_is_expected_to_take_what_it_takes_where_it_is_the_decision(start):
    suite = tiny_suite(tasks=2)
    first, second = suite.tasks
    found = []
    for threshold in (0.0, 1e9):  # the second task opens a copy, or it joins the first
        settings = {"subnets__new_copy": start, "routing__max_copies": None, "net__timesteps": "table"}
        learner = tiny_learner("affinity-l", suite, **settings, routing__threshold=threshold, fit__steps=2)
        learner.learn(replace(first, interface=replace(first.interface, horizon=400)))
        found.append(previewed(learner, second, None, None, ()))
    opens, joins = found
    assert (opens.route["opened"], joins.route["opened"]) == (True, False)
    assert joins.alternative == Alternative(copy=1, opened=True, bytes=opens.bytes)
    assert opens.alternative == Alternative(copy=0, opened=False, bytes=joins.bytes)
    assert opens.bytes != joins.bytes


def test_the_other_decision_is_the_nearest_copy_with_room():
    suite = tiny_suite()
    learner = tiny_learner("affinity-l", suite, routing__threshold=0.0, routing__max_copies=None, fit__steps=2)
    for task in suite.tasks[:2]:
        learner.learn(task)
    opened = learner.route(suite.tasks[2])
    assert opened.opened
    near, far = (Candidate(name, copy, distance, {}) for name, copy, distance in (("near", 1, 2.0), ("far", 0, 3.0)))
    for candidates in ((near, far), (far, near)):
        other = learner.other_route(suite.tasks[2], replace(opened, candidates=candidates))
        assert (other.source, other.copy, other.opened) == ("near", 1, False)
    other = learner.other_route(suite.tasks[2], replace(opened, candidates=(replace(near, full=True), far)))
    assert (other.source, other.copy) == ("far", 0)


@pytest.mark.parametrize(("threshold", "said"), [("auto", True), (1.0, False)])
def test_a_preview_says_if_a_task_may_come_again_which_a_tuned_threshold_says_only_when_very_near(threshold, said):
    suite = tiny_suite(tasks=2)
    learner = tiny_learner("affinity-l", suite, routing__threshold=threshold, fit__steps=2)
    first, second = suite.tasks
    learner.learn(first)
    found = replace(learner.route(second), candidates=(Candidate(first.name, 0, 0.3, {}),))
    assert found.threshold == 1
    assert list(warnings(learner, found)) == (
        [f"It may be {first.name} again: it is at a distance of 0.3."] if said else []
    )


def test_there_is_no_other_decision_where_no_copy_has_room():
    suite = tiny_suite(tasks=2)
    learner = tiny_learner("affinity-l", suite, subnets__new="planned", subnets__tasks=1)
    for task in suite.tasks:
        assert previewed(learner, task, None, None, ()).alternative is None
        learner.learn(task)


@pytest.mark.parametrize(
    ("name", "settings"), [("tsn-core", {}), ("independent", {}), ("affinity-l", {"routing__max_copies": 1})]
)
def test_there_is_no_other_decision_where_no_copy_may_be_opened(name, settings):
    suite = tiny_suite(tasks=2)
    learner = tiny_learner(name, suite, **settings)
    learner.learn(suite.tasks[0])
    assert previewed(learner, suite.tasks[1], None, None, ()).alternative is None


# Large networks


def test_more_weights_than_torch_takes_quantiles_of_are_quantised(monkeypatch):
    layout = Layout(("a.weight",), ((100, 30),))
    values = torch.randn(layout.total, generator=torch.Generator().manual_seed(0))
    new = torch.ones(layout.total, dtype=torch.bool)
    whole = quantise(values, new, layout, bits=3)
    monkeypatch.setattr("holdfast.subnets.quantise.MOST_POINTS", 1000)  # really 16 million
    monkeypatch.setattr("torch.quantile", limited(torch.quantile, 1000))
    moved = quantise(values, new, layout, bits=3)
    assert len(moved.unique()) == 8
    assert float((moved - values).square().mean()) == pytest.approx(float((whole - values).square().mean()), rel=0.1)


def limited(quantile: Callable[..., torch.Tensor], most: int) -> Callable[..., torch.Tensor]:
    """The function, which then fails as torch's does if there are too many points."""

    def limited_quantile(points: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        if len(points) > most:
            raise RuntimeError("quantile() input tensor is too large")
        return quantile(points, at)

    return limited_quantile


# Scores


def test_a_score_without_a_scale_does_not_count_if_its_weight_is_zero():
    near, far = {"action": 0.1, "constant": 1.0}, {"action": 0.1, "constant": 0.0}
    like, unlike = {"latent": 0.1, "halves": 1.0}, {"latent": 0.1, "halves": 0.0}
    for alpha, scores in ((0.0, {**far, **like}), (1.0, {**near, **unlike})):
        (distance,), limit = HybridAffinity("auto", alpha=alpha).distances([scores])
        assert distance <= limit
        other = HybridAffinity("auto", alpha=1 - alpha)
        assert other.distances([scores])[0] == [inf]


@pytest.mark.parametrize("threshold", [0.5, "auto"])
def test_a_task_whose_score_could_not_be_computed_is_far_whatever_the_weight(threshold):
    broken = {"action": inf, "constant": 1.0, "latent": 0.1, "halves": 1.0}
    distances, _ = HybridAffinity(threshold, alpha=0.0).distances([broken, {**broken, "action": 0.1}])
    assert not isfinite(distances[0])
    assert isfinite(distances[1])


# Combinations


def drawn_settings(draw: random.Random, name: str) -> dict:
    """Some settings of reuse, each at random."""
    new = draw.choice([None, 0.0, 0.05, 0.5, "planned", "auto"])
    routing = {} if name == "tsn-core" else {"routing__max_copies": draw.choice([None, 1, 2])}
    settings = {
        "backbone": draw.choice(["dt", "mlp"]),
        "subnets__keep": draw.choice([0.01, 0.33, 0.9, 1.0]),
        "subnets__new": new,
        "subnets__reuse": new is not None or draw.random() < 0.5,
        "subnets__place": "scores" if new is None else draw.choice(["scores", "gradient", "deep", "shallow"]),
        "subnets__schedule": draw.choice(["constant", "constant", "equal_remaining"]),
        "subnets__tasks": draw.choice([None, 2, 5]),
        "subnets__private": draw.choice([0.0, 0.1, 1.0]),
        "subnets__biases": draw.choice(["masked", "outside"]),
        "subnets__outside": draw.choice(["private", "frozen"]),
        "subnets__sources": draw.choice([1, 2]),
        "subnets__warm_start": draw.choice([0.0, 0.3, 100.0]),
        "subnets__new_copy": draw.choice(["fresh", "last"]),
        "subnets__quantise_bits": draw.choice([0, 1, 3]),
        "net__width": 8,
        "fit__steps": 2,
        **routing,
    }
    if name == "tsn-core":  # without routing, it refuses these
        settings |= {"subnets__sources": 1, "subnets__new_copy": "fresh"}
    return settings


@pytest.mark.parametrize(("seed", "name"), list(enumerate(SPARSE)))
def test_the_laws_of_reuse_hold_for_settings_that_are_drawn_at_random(seed, name):
    draw = random.Random(seed)
    suite, settings = tiny_suite(draw.choice(["toy", "toy-continuous"])), drawn_settings(draw, name)
    learner, again = (tiny_learner(name, suite, **settings) for _ in range(2))
    learned: dict[str, str] = {}
    for number in range(4):
        task = replace(suite.tasks[number % 3], name=f"Task{number}")
        snapshot, more = learner.snapshot(), [account["more"] for account in learner.accounts()]
        try:
            foreseen = previewed(learner, task, None, None, ()).route
        except Mistake as refusal:
            with pytest.raises(Mistake, match=re.escape(str(refusal))):
                learner.learn(task)
            assert same(learner.snapshot(), snapshot)
            assert set(more) == {0}
            return
        room = learner.room(foreseen["copy"], task.interface)
        learner.learn(task)
        assert learner.routes()[-1] == foreseen
        assert not room.earlier or more[room.index] != 0  # a full copy is passed over
        check_counts(learner, task, room)
        prints = fingerprints(learner)
        assert learned.items() <= prints.items()
        learned = prints
        again.restore(learner.snapshot())
        assert same(again.snapshot(), learner.snapshot())
        assert fingerprints(again) == prints


def check_counts(learner: Sparse, task: Task, room: Room) -> None:
    """The task has selected, claimed and changed exactly as many entries of each tensor as it should."""
    config, found, held = learner.subnets, learner.subnetworks[task.name], len(room.earlier)
    counts = task_counts(config, room.layout, free_entries(room.layout, room.copy), held, task.dataset.steps)
    for tensor, (chosen, owned) in enumerate(room.layout.pieces(found.mask, room.copy.occupied)):
        assert int(chosen.sum()) == counts.selected[tensor] > 0
        assert counts.new is None or int((chosen & ~owned).sum()) == counts.new[tensor]
    assert (counts.changed is not None) == (found.change is not None) == bool(config.private and held)
    if found.change is not None:
        changed = [int(chosen.sum()) for (chosen,) in room.layout.pieces(found.change.mask)]
        assert changed == counts.changed
