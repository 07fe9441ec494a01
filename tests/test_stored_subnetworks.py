"""What is stored of subnetworks: masks in few bits, new weights as codes and tables, free weights apart; all exact."""

import hashlib
import json
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save
from torch import Tensor

import holdfast
from holdfast.evaluation.certificates import fingerprint
from holdfast.learners.learner import Snapshot
from holdfast.runs.folder import RunFolder
from holdfast.runs.more import learn_more
from holdfast.subnets.layout import Layout
from holdfast.subnets.quantise import quantise
from holdfast.subnets.stored_masks import DEFLATED, PLAIN, read_masks, stored_masks
from holdfast.subnets.stored_weights import CODES, SIZES, TABLES, VALUES, read_weights, stored_weights
from tests.tiny import QUIET, tiny_learner, tiny_suite

SPECIAL = torch.tensor([0.0, -0.0, float("nan"), float("inf"), 1e-45])


def bits(values: Tensor) -> list[int]:
    """The numbers as integers with the same bits: NaN equals itself, and 0.0 is not -0.0."""
    return values.view(torch.int32).tolist()


def random_mask(total: int, share: float, seed: int) -> Tensor:
    return torch.rand(total, generator=torch.Generator().manual_seed(seed)) < share


def mask_bytes(masks: list[Tensor]) -> list[int]:
    return [sum(tensor.nbytes for tensor in stored.values()) for stored in stored_masks(masks)]


# Masks


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 300), st.lists(st.sampled_from([0.0, 0.02, 0.3, 0.5, 0.97, 1.0]), max_size=5), st.integers(0, 99))
def test_masks_are_read_as_they_were_stored(total: int, shares: list[float], seed: int) -> None:
    masks = [random_mask(total, share, seed + at) for at, share in enumerate(shares)]
    found = list(read_masks(stored_masks(masks), total))
    assert len(found) == len(masks)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(found, masks, strict=True))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 3000), st.floats(0, 1), st.integers(0, 99))
def test_a_mask_never_costs_more_than_a_bit_an_entry(total: int, share: float, seed: int) -> None:
    assert mask_bytes([random_mask(total, share, seed)])[0] <= -(-total // 8)


@pytest.mark.parametrize("share", [0.33, 0.1, 0.05])
def test_a_sparse_mask_costs_about_its_entropy(share: float) -> None:
    total = 200_000
    entropy = -(share * np.log2(share) + (1 - share) * np.log2(1 - share))
    (cost,) = mask_bytes([random_mask(total, share, 0)])
    assert entropy <= 1.01 * 8 * cost / total <= 1.08 * entropy


def test_a_mask_that_reuses_an_earlier_one_costs_what_is_new_in_it() -> None:
    total, generator = 200_000, torch.Generator().manual_seed(0)
    others = [random_mask(total, 0.33, seed) for seed in (1, 2)]
    entries = torch.randperm(total, generator=generator)[:1000]
    similar = others[0].clone()
    similar[entries] = ~similar[entries]
    *_, alone = mask_bytes([similar])
    *_, after = mask_bytes([*others, similar])
    assert after < alone / 6


def test_what_is_stored_of_a_mask_does_not_depend_on_later_masks() -> None:
    masks = [random_mask(5000, share, seed) for seed, share in enumerate((0.3, 0.1, 0.4))]
    for ours, theirs in zip(stored_masks(masks[:2]), stored_masks(masks), strict=False):
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize(
    "forged",
    [
        {PLAIN: torch.zeros(12, dtype=torch.uint8)},
        {PLAIN: torch.zeros(13)},
        {DEFLATED: torch.zeros(9, dtype=torch.uint8)},
        {DEFLATED: torch.frombuffer(bytearray(zlib.compress(bytes(12))), dtype=torch.uint8)},
        {DEFLATED: torch.frombuffer(bytearray(zlib.compress(bytes(10**6))), dtype=torch.uint8)},
        {DEFLATED: torch.frombuffer(bytearray(zlib.compress(bytes(13))), dtype=torch.uint8)[:-1]},
    ],
)
def test_a_damaged_mask_is_refused(forged: dict[str, Tensor]) -> None:
    with pytest.raises(ValueError, match=r"bits|mask"):
        list(read_masks([forged], 100))


# Weights


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 200), st.integers(1, 300)), max_size=5), st.integers(0, 99))
def test_weights_are_read_to_the_bit_however_many_values_they_have(shapes: list[tuple[int, int]], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    pieces = []
    for count, distinct in shapes:
        table = torch.cat([SPECIAL, torch.randn(distinct, generator=generator)])
        pieces.append(table[torch.randint(distinct, (count,), generator=generator)])
    stored = stored_weights(pieces)
    found = read_weights(stored, [len(piece) for piece in pieces])
    assert bits(found) == [number for piece in pieces for number in bits(piece)]
    plain = sum(piece.nbytes for piece in pieces)
    assert sum(tensor.nbytes for tensor in stored.values()) <= plain + 4 * len(pieces)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7, 8])
def test_quantised_weights_cost_their_bits_and_a_table_per_tensor(count: int) -> None:
    layout = Layout(("a.weight", "b.weight", "b.bias"), ((100, 100), (50, 100), (1,)))
    values = torch.randn(layout.total, generator=torch.Generator().manual_seed(0))
    new = random_mask(layout.total, 0.4, 1)
    moved = quantise(values, new, layout, count)
    pieces = [piece[chosen] for piece, chosen in layout.pieces(moved, new)]
    stored = stored_weights(pieces)
    assert bits(read_weights(stored, [len(piece) for piece in pieces])) == bits(moved[new])
    coded = sum(len(piece) for piece in pieces[:2])
    assert stored[CODES].nbytes == -(-coded * count // 8)
    assert stored[TABLES].nbytes == 2 * 4 * 2**count
    assert stored[VALUES].numel() == len(pieces[2])  # a table would cost more than this


def test_damaged_weights_are_refused() -> None:
    table = torch.tensor([1.0, 2.0])
    pieces = [table[torch.arange(50) % 2], torch.arange(3.0)]
    stored = stored_weights(pieces)
    forgeries = [
        {VALUES: torch.zeros(2)},
        {VALUES: torch.zeros(3, dtype=torch.float64)},
        {SIZES: torch.tensor([2, 0, 0])},
        {SIZES: torch.tensor([2, 2])},
        {SIZES: torch.tensor([4, -2])},
        {TABLES: torch.zeros(3)},
        {CODES: torch.zeros(6, dtype=torch.uint8)},
    ]
    for forged in forgeries:
        with pytest.raises(ValueError, match=r"bits|weights|zip"):
            read_weights({**stored, **forged}, [50, 3])
    three = {**stored, SIZES: torch.tensor([3, 0]), TABLES: torch.zeros(3), CODES: torch.full((13,), 255).byte()}
    with pytest.raises(IndexError):
        read_weights(three, [50, 3])


# Learners


@pytest.mark.parametrize("count", [0, 3])
@pytest.mark.parametrize("name", ["tsn-core", "packnet"])
def test_what_a_snapshot_costs_is_the_sum_of_what_its_tasks_cost(name: str, count: int) -> None:
    suite = tiny_suite()
    learner = tiny_learner(name, suite, subnets__quantise_bits=count)
    sizes = []
    for task in suite.tasks:
        learner.learn(task)
        (account,) = learner.accounts()
        costs = [share["bytes"] for share in account["tasks"].values()]
        assert sum(costs) == learner.snapshot().bytes()["weights"]
        assert costs[: len(sizes)] == sizes  # a later task changes nothing that is stored of earlier ones
        sizes = costs


def test_quantisation_makes_what_is_stored_smaller() -> None:
    suite = tiny_suite()
    costs = []
    for count in (0, 6, 3, 1):
        learner = tiny_learner("tsn-core", suite, subnets__quantise_bits=count)
        for task in suite.tasks:
            learner.learn(task)
        costs.append(learner.snapshot().bytes()["weights"])
    assert costs == sorted(set(costs), reverse=True)


@pytest.mark.parametrize("outside", ["private", "shared"])
def test_a_snapshot_without_memory_acts_the_same_but_cannot_learn(outside: str) -> None:
    suite = tiny_suite()
    learner = tiny_learner("tsn-core", suite, subnets__outside=outside)
    for task in suite.tasks[:2]:
        learner.learn(task)
    whole = learner.snapshot()
    pruned = tiny_learner("tsn-core", suite, subnets__outside=outside)
    pruned.restore(Snapshot(whole.weights, {}, whole.notes))
    for name in learner.learned:
        ours, theirs = (found.policy(name).net.state_dict() for found in (pruned, learner))
        assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
    assert pruned.snapshot().memory == {}
    with pytest.raises(holdfast.Mistake, match="it can only act"):
        pruned.learn(suite.tasks[2])
    pruned.restore(whole)
    pruned.learn(suite.tasks[2])


def test_files_of_learned_tasks_are_not_written_again(tmp_path: Path) -> None:
    suite = tiny_suite()
    holdfast.run(suite, tiny_learner("tsn-core", suite), tmp_path, QUIET)
    files = RunFolder(tmp_path).store.index.stages[-1].files
    assert {name: file.path for name, file in files.items()} == {
        **{f"weights/task-{name}": f"weights/task-{name}.{at}.safetensors" for at, name in enumerate(suite.names)},
        "memory/copy-0": f"memory/copy-0.{len(suite.names) - 1}.safetensors",
    }


def test_a_folder_whose_memory_was_removed_still_acts_and_says_why_it_cannot_learn(tmp_path: Path) -> None:
    suite = tiny_suite()
    first = suite.ordered(suite.names[:2])
    learner = tiny_learner("tsn-core", first, subnets__tasks=3)
    holdfast.run(first, learner, tmp_path, QUIET)
    index = tmp_path / "weights" / "index.json"
    record = json.loads(index.read_text())
    (tmp_path / record["stages"][-1]["files"].pop("memory/copy-0")["path"]).unlink()
    index.write_text(json.dumps(record))
    _, again = holdfast.reopen(tmp_path, "cpu", first)
    for name in learner.learned:
        assert fingerprint(again.policy(name)) == fingerprint(learner.policy(name))
    with pytest.raises(holdfast.Mistake, match="has no memory, which this learner needs to learn another task"):
        learn_more(tmp_path, suite.tasks[2], "cpu", first, options=QUIET)


@pytest.mark.parametrize(("count", "name"), [(0, "new/values"), (3, "new/tables"), (3, "new/codes")])
def test_stored_weights_that_changed_with_their_hash_are_not_certified(tmp_path: Path, count: int, name: str) -> None:
    suite = tiny_suite(tasks=2)
    holdfast.run(suite, tiny_learner("tsn-core", suite, subnets__quantise_bits=count), tmp_path, QUIET)
    (path,) = (tmp_path / "weights").glob(f"task-{suite.names[0]}.*")
    tensors = load(path.read_bytes())
    tensors[name] = tensors[name].flip(0)
    index, old = tmp_path / "weights" / "index.json", hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_bytes(save(tensors))
    index.write_text(index.read_text().replace(old, hashlib.sha256(path.read_bytes()).hexdigest()))
    with pytest.raises(holdfast.Mistake, match=f"the policy of {suite.names[0]} .* is not the one"):
        holdfast.reopen(tmp_path, "cpu", suite)


@pytest.mark.parametrize("count", [0, 3])
def test_a_restored_learner_has_all_weights_and_learns_on_to_the_same_bits(count: int) -> None:
    suite = tiny_suite()
    learner = tiny_learner("tsn-core", suite, subnets__quantise_bits=count)
    for task in suite.tasks[:2]:
        learner.learn(task)
    again = tiny_learner("tsn-core", suite, subnets__quantise_bits=count)
    again.restore(learner.snapshot())
    assert bits(again.model_copies[0].weights) == bits(learner.model_copies[0].weights)
    for found in (learner, again):
        found.learn(suite.tasks[2])
    assert bits(again.model_copies[0].weights) == bits(learner.model_copies[0].weights)
