"""A task selects something in every tensor or is refused beforehand, and a full copy is passed over."""

import pytest
import torch

from holdfast.cli.main import main
from holdfast.errors import Mistake
from holdfast.routing.route import Candidate, route
from holdfast.subnets.claim import Start, begin
from holdfast.subnets.config import SubnetConfig
from holdfast.subnets.copies import Copy
from holdfast.subnets.layout import Layout
from holdfast.subnets.quotas import check_room, free_entries, has_room, selected_counts
from tests.tiny import tiny_learner, tiny_suite

SMOKE = ("run", "--suite", "toy", "--budget", "smoke", "--transitions", "200", "--fit.steps", "2", "--no-tensorboard")
LAYOUT = Layout(("a.weight", "a.bias", "b.weight", "b.bias"), ((2, 5), (2,), (3, 4), (3,)))


def copy_with(*owned: int) -> Copy:
    """A copy of which so many entries of each tensor are owned."""
    pieces = [torch.arange(size) < count for size, count in zip(LAYOUT.sizes, owned, strict=True)]
    return Copy(torch.zeros(LAYOUT.total), torch.cat(pieces), {})


def test_a_tensor_without_a_free_entry_is_named_before_training():
    config = SubnetConfig(reuse=False, keep=0.5)
    with pytest.raises(Mistake, match=r"task 2 in one copy would select nothing in 2 of 4 tensors \(a.bias, b.bias\)"):
        selected_counts(config, LAYOUT, free_entries(LAYOUT, copy_with(4, 2, 4, 3)), held=1)


def test_a_few_tensors_are_named_and_the_others_counted():
    config = SubnetConfig(reuse=False)
    with pytest.raises(Mistake, match=r"4 of 4 tensors \(a.weight, a.bias, b.weight and 1 more\)"):
        selected_counts(config, LAYOUT, free_entries(LAYOUT, copy_with(10, 2, 12, 3)), held=1)


def test_one_free_entry_is_enough_for_a_task_however_small_its_share():
    config = SubnetConfig(reuse=False, keep=0.01)
    assert has_room(config, LAYOUT, copy_with(9, 1, 11, 2), held=5)
    assert not has_room(config, LAYOUT, copy_with(9, 2, 11, 2), held=5)


def test_without_reuse_a_later_task_that_would_find_nothing_is_foreseen():
    # Of b.bias's 3 entries at 0.6: ceil(1.8) = 2, then ceil(0.6) = 1, then none; of a.bias's 2: 2, then none.
    config = SubnetConfig(reuse=False, keep=0.6, tasks=4)
    with pytest.raises(Mistake, match=r"task 2 .* \(a.bias\)"):
        check_room(config, LAYOUT)
    check_room(SubnetConfig(reuse=False, keep=0.6, tasks=1), LAYOUT)


def test_with_reuse_owned_entries_are_selected_again_so_that_a_copy_is_never_full():
    assert has_room(SubnetConfig(keep=0.01), LAYOUT, copy_with(10, 2, 12, 3), held=9)


def test_equal_remaining_finds_nothing_where_nothing_is_free_even_with_reuse():
    config = SubnetConfig(schedule="equal_remaining", tasks=3)
    assert not has_room(config, LAYOUT, copy_with(4, 2, 4, 1), held=2)


def test_a_network_with_an_empty_mask_cannot_be_made():
    suite = tiny_suite()
    learner = tiny_learner("tsn-core", suite, subnets__reuse=False)
    occupied = torch.zeros(learner.layout(suite.interface).total, dtype=torch.bool)
    occupied[: learner.layout(suite.interface).sizes[0]] = True
    copy = Copy(torch.zeros(learner.layout(suite.interface).total), occupied, {})
    net, start = learner.fresh_net(0, suite.interface), Start(copy, [], [], torch.Generator())
    with pytest.raises(Mistake, match=rf"1 of 10 tensors \({learner.layout(suite.interface).names[0]}\)"):
        begin(learner.subnets, net, learner.layout(suite.interface), start)


def test_a_run_whose_later_tasks_would_be_dead_is_refused_before_its_first(tmp_path, capsys):
    words = ("--learner", "tsn-core", "--subnets.no-reuse", "--subnets.keep", "0.9", "--out", str(tmp_path / "dead"))
    with pytest.raises(SystemExit) as stop:
        main([*SMOKE, *words])
    said = capsys.readouterr().err
    assert stop.value.code == 2
    assert said.count("\n") == 1
    assert "head.output.bias" in said
    assert "subnets.keep" in said
    assert not (tmp_path / "dead").exists()


def test_every_tensor_of_every_task_has_entries_where_a_run_without_reuse_is_not_refused():
    suite = tiny_suite(tasks=4)
    learner = tiny_learner("tsn-core", suite, subnets__reuse=False, subnets__keep=0.5)
    for task in suite.tasks:
        learner.learn(task)
    for found in learner.subnetworks.values():
        assert all(piece.any() for piece in found.mask.split(learner.layout(suite.interface).sizes))


def candidate(task: str, copy: int, distance: float, full: bool = False) -> Candidate:
    return Candidate(task, copy, distance, {}, full)


def test_the_next_nearest_task_is_the_source_where_the_nearest_copy_is_full():
    found = route("New", [candidate("A", 0, 1.0, full=True), candidate("B", 1, 2.0)], 3.0, copies=2)
    assert (found.source, found.copy, found.opened) == ("B", 1, False)
    assert found.reason == "near enough, and the nearest copy is full"
    assert [told["full"] for told in found.record()["candidates"]] == [True, False]


def test_a_copy_is_opened_where_the_near_ones_are_full_and_the_others_too_far():
    found = route("New", [candidate("A", 0, 1.0, full=True), candidate("B", 1, 9.0)], 3.0, copies=2)
    assert (found.source, found.copy, found.opened, found.reason) == (None, 2, True, "nearest copy is full")


def test_a_task_that_is_too_far_from_a_full_copy_is_too_far():
    assert route("New", [candidate("A", 0, 5.0, full=True)], 3.0, copies=1).reason == "too far"


def test_where_no_copy_may_be_opened_the_nearest_with_room_is_taken():
    found = route("New", [candidate("A", 0, 1.0, full=True), candidate("B", 1, 9.0)], 3.0, copies=2, max_copies=2)
    assert (found.source, found.copy, found.opened) == ("B", 1, False)


def test_where_no_copy_may_be_opened_and_all_are_full_one_sentence_says_what_to_do():
    with pytest.raises(Mistake, match=r"no room for New: .*routing.max_copies allows no other: raise it"):
        route("New", [candidate("A", 0, 1.0, full=True)], 3.0, copies=1, max_copies=1)


@pytest.mark.parametrize("name", ["affinity-a", "affinity-l", "affinity-h", "tsn-replaykl"])
def test_a_routed_learner_opens_a_copy_when_the_nearest_is_full(name):
    suite = tiny_suite()
    near = {"routing__threshold": 1e9, "subnets__reuse": False, "subnets__keep": 1.0}
    if name == "affinity-h":
        near |= {"routing__action_threshold": 1e9, "routing__latent_threshold": 1e9}
    learner = tiny_learner(name, suite, preset="paper", **near)
    for task in suite.tasks:
        learner.learn(task)
    assert [learner.task_copy(task) for task in suite.names] == [0, 1, 2]
    assert [told["reason"] for told in learner.routes()] == ["first task", *["nearest copy is full"] * 2]


def test_a_routed_learner_shares_a_copy_until_it_is_full():
    suite = tiny_suite(tasks=4)
    settings = {"preset": "paper", "routing__threshold": 1e9, "subnets__reuse": False, "subnets__keep": 0.9}
    learner = tiny_learner("affinity-l", suite, **settings, subnets__exclude=("timestep", "head", "encoder"))
    for task in suite.tasks:
        learner.learn(task)
    assert [learner.task_copy(task) for task in suite.names] == [0, 0, 1, 1]
    for found in learner.subnetworks.values():
        assert all(piece.any() for piece in found.mask.split(learner.layout(suite.interface).sizes))


def test_equal_remaining_gives_each_of_four_tasks_in_four_copies_a_quarter():
    suite = tiny_suite(tasks=4)
    learner = tiny_learner("affinity-l", suite, routing__threshold=-1.0, subnets__schedule="equal_remaining")
    for task in suite.tasks:
        learner.learn(task)
    assert learner.copies == 4
    for found in learner.subnetworks.values():
        counts = [int(piece.sum()) for piece in found.mask.split(learner.layout(suite.interface).sizes)]
        assert counts == [-(-size // 4) for size in learner.layout(suite.interface).sizes]


def test_equal_remaining_shares_among_as_many_tasks_as_are_said():
    suite = tiny_suite(tasks=3)
    learner = tiny_learner("tsn-core", suite, subnets__schedule="equal_remaining", subnets__tasks=6)
    learner.learn(suite.tasks[0])
    counts = [
        int(piece.sum())
        for piece in learner.subnetworks[suite.names[0]].mask.split(learner.layout(suite.interface).sizes)
    ]
    assert counts == [-(-size // 6) for size in learner.layout(suite.interface).sizes]
    with pytest.raises(Mistake, match=r"subnets.tasks must be at least 1 .* got 0"):
        SubnetConfig(tasks=0)
