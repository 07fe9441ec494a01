"""The comparison methods do what their papers say, on models that a hand can solve."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from holdfast.data.randomness import derive
from holdfast.data.windows import Mixture
from holdfast.learners.anchor import Anchor
from holdfast.learners.dense import Lesson
from holdfast.learners.ewc import EwcConfig, fisher_information
from holdfast.learners.si import Path
from holdfast.nets.transformer import DtConfig
from holdfast.runs.run import datasets_of
from holdfast.tasks.suite import suite
from holdfast.training.config import FitConfig
from holdfast.training.fit import fit
from holdfast.training.recorder import Silent
from tests.tiny import tiny_learner, tiny_suite, windows_in


class Parabola(nn.Module):
    """loss = sum(c * (w - target)^2) / 2 with a curvature c that the batch brings: the gradient is c * (w - target)."""

    def __init__(self, start: list[float], target: list[float]) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor(start))
        self.target = torch.tensor(target)

    def forward(self, batch: Any) -> torch.Tensor:
        return (batch * (self.w - self.target) ** 2).sum() / 2


class Curvatures:
    """A source of batches 1, 2, 1, 2, ... of one curvature each."""

    def __init__(self) -> None:
        self.calls = 0

    def sample(self, count: int, rng: np.random.Generator) -> Any:
        self.calls += 1
        return torch.tensor([1.0, 2.0] if self.calls % 2 else [3.0, 4.0])


def test_the_fisher_diagonal_by_hand():
    # w - target = (2, -1). Gradients: (2, -2) and (6, -4). Mean of squares: (4 + 36) / 2, (4 + 16) / 2.
    model = Parabola([3.0, 0.0], [1.0, 1.0])
    config = EwcConfig(DtConfig(), FitConfig(batch=1), fisher_batches=2)
    fisher = fisher_information(model, Curvatures(), config, seed=0)
    assert fisher["w"].tolist() == [20.0, 10.0]
    assert model.w.grad is None or not model.w.grad.any()


def test_an_anchor_adds_the_gradient_of_its_penalty():
    parameter = nn.Parameter(torch.tensor([3.0, -1.0]))
    importances, anchors = (
        [torch.tensor([2.0, 1.0]), torch.tensor([0.5, 4.0])],
        [torch.tensor([1.0, 0.0]), torch.tensor([2.0, 2.0])],
    )
    penalty = sum(5.0 / 2 * (f * (parameter - a) ** 2).sum() for f, a in zip(importances, anchors, strict=True))
    (expected,) = torch.autograd.grad(penalty, parameter)
    pulled = sum(f * a for f, a in zip(importances, anchors, strict=True))
    parameter.grad = torch.zeros(2)
    Anchor(5.0, {"w": sum(importances)}, {"w": pulled}).on_gradients({"w": parameter})
    assert torch.allclose(parameter.grad, expected)


def test_the_path_integral_by_hand():
    # One step each: gradient (2, -2), parameters move by (-0.5, 0.25): the integral is -(g * move) = (1, 0.5).
    parameter = nn.Parameter(torch.tensor([3.0, 0.0]))
    path = Path(Anchor(100.0, {"w": torch.ones(2)}, {"w": torch.zeros(2)}), {"w": parameter})
    parameter.grad = torch.tensor([2.0, -2.0])
    path.on_gradients({"w": parameter})
    assert parameter.grad.tolist() == [302.0, -2.0]  # the pull is in the step, not in the integral
    with torch.no_grad():
        parameter += torch.tensor([-0.5, 0.25])
    path.on_step({"w": parameter})
    assert path.integral["w"].tolist() == [1.0, 0.5]
    importance = path.importance({"w": parameter}, damping=0.25)["w"]
    assert importance.tolist() == pytest.approx([1.0 / 0.5, 0.5 / (0.0625 + 0.25)])


class Operations(TorchDispatchMode):
    """Counts the operations on tensors; on a GPU each of them is at least one kernel launch."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += operation is not torch.ops.aten.detach.default  # a view
        return operation(*args, **(kwargs or {}))


@pytest.mark.parametrize("tensors", [1, 50])
def test_a_penalty_adds_as_many_operations_to_a_step_for_many_tensors_as_for_one(tensors):
    parameters = {f"w{number}": nn.Parameter(torch.ones(2)) for number in range(tensors)}
    for parameter in parameters.values():
        parameter.grad = torch.ones(2)
    held = {name: torch.ones(2) for name in parameters}
    path = Path(Anchor(1.0, held, held), parameters)
    with Operations() as operations:
        path.on_gradients(parameters)
        path.on_step(parameters)
    assert operations.count == 9  # two copies, the four of the penalty, the three of the integral


def test_a_parameter_that_made_the_loss_worse_is_not_needed():
    parameter = nn.Parameter(torch.tensor([1.0]))
    path = Path(Anchor(0.0, {}, {}), {"w": parameter})
    path.integral["w"] -= 2.0
    assert path.importance({"w": parameter}, damping=0.1)["w"].tolist() == [0.0]


def test_the_path_integral_of_small_steps_is_the_loss_that_was_lost():
    model = Parabola([3.0], [1.0])
    path = Path(Anchor(0.0, {}, {}), {"w": model.w})

    class One:
        def sample(self, count: int, rng: np.random.Generator) -> Any:
            return torch.tensor([1.0])

    before = float(model(torch.tensor([1.0])).detach())
    fit(model, One(), FitConfig(steps=2000, learning_rate=5e-4, weight_decay=0.0, clip=1e9), 0, Silent(), "task", path)
    after = float(model(torch.tensor([1.0])).detach())
    assert float(path.integral["w"]) == pytest.approx(before - after, rel=0.01)


def test_a_fit_is_adamw_of_the_clipped_gradient_at_the_rate_of_each_step():
    class Every:
        def sample(self, count: int, rng: np.random.Generator) -> Any:
            return torch.tensor([4.0, 1.0])

    model, plain = Parabola([3.0, -2.0], [1.0, 0.0]), Parabola([3.0, -2.0], [1.0, 0.0])
    config = FitConfig(steps=20, learning_rate=0.1, schedule="one-cycle", weight_decay=0.5, clip=0.25)
    fit(model, Every(), config, 0, Silent(), "task")
    optimiser = torch.optim.AdamW(plain.parameters(), 1.0, (0.9, 0.999), 1e-8, 0.5)
    for step in range(20):
        optimiser.param_groups[0]["lr"] = config.rate(step)
        optimiser.zero_grad()
        plain(torch.tensor([4.0, 1.0])).backward()
        nn.utils.clip_grad_norm_(plain.parameters(), 0.25)
        optimiser.step()
    assert torch.allclose(model.w, plain.w, rtol=1e-5)


def test_a_fit_leaves_the_generator_of_others_alone():
    found = tiny_suite()
    learner, before = tiny_learner("naive", found), torch.get_rng_state()
    learner.learn(found.tasks[0])
    assert torch.equal(torch.get_rng_state(), before)


def test_the_one_cycle_rises_for_a_tenth_and_ends_near_zero():
    config = FitConfig(steps=100, learning_rate=1.0, schedule="one-cycle")
    shares = [config.rate(step) for step in range(100)]
    assert shares[:10] == pytest.approx([0.1 * (step + 1) for step in range(10)])
    assert shares[55] == pytest.approx(0.5)
    assert 0 < shares[99] < 0.001
    assert FitConfig(steps=100, learning_rate=0.5).rate(99) == 0.5


def moved_by(name: str, **settings: Any) -> float:
    """How far learning a second task moves the network."""
    found = tiny_suite(tasks=2)
    trained = tiny_learner(name, found, fit__steps=30, **settings)
    trained.learn(found.tasks[0])
    before = torch.cat([p.detach().flatten().clone() for p in trained.net.parameters()])
    trained.learn(found.tasks[1])
    return float((torch.cat([p.detach().flatten() for p in trained.net.parameters()]) - before).norm())


@pytest.mark.parametrize("name", ["ewc", "si", "l2"])
def test_a_strong_pull_holds_the_network_and_no_pull_is_naive(name):
    assert moved_by(name, strength=0.0) == moved_by("naive")
    assert moved_by(name, strength=1e8) < 0.8 * moved_by("naive")


def test_l2_pulls_all_parameters_to_their_last_values_with_equal_force_and_keeps_nothing_else():
    found = tiny_suite(tasks=2)
    trained = tiny_learner("l2", found, strength=3.0)
    trained.learn(found.tasks[0])
    last = {name: parameter.detach().clone() for name, parameter in trained.net.named_parameters()}
    anchor = trained.anchor()
    for parameter in trained.net.parameters():
        parameter.grad = torch.zeros_like(parameter)
        parameter.data += 0.5
    anchor.on_gradients(dict(trained.net.named_parameters()))
    for name, parameter in trained.net.named_parameters():
        assert torch.allclose(parameter.grad, 3.0 * (parameter.detach() - last[name]), atol=1e-5)
    assert trained.snapshot().bytes()["memory"] == 0


def test_ewc_over_all_tasks_sums_what_each_needs():
    found = tiny_suite(tasks=2)
    learner = tiny_learner("ewc", found)
    importance, pulled = 0.0, 0.0
    for task in found.tasks:
        learner.learn(task)
        seed = derive(learner.seed, "fit", task.name)
        fisher = fisher_information(learner.net, windows_in(learner, task), learner.config, seed)
        importance += fisher["head.output.weight"]
        pulled += fisher["head.output.weight"] * learner.net.head.output.weight.detach()
    assert torch.equal(learner.memory["importance/head.output.weight"], importance)
    assert torch.equal(learner.memory["pulled/head.output.weight"], pulled)


def test_ewc_over_the_last_task_forgets_the_anchors_before():
    found = tiny_suite()
    sums = {}
    for over in ("all", "last"):
        trained = tiny_learner("ewc", found, over=over)
        for task in found.tasks:
            trained.learn(task)
        sums[over] = sum(float(t.sum()) for name, t in trained.memory.items() if name.startswith("importance/"))
    assert sums["last"] < sums["all"]


def test_cumulative_stores_all_trajectories_without_a_capacity():
    found = tiny_suite()
    trained = tiny_learner("cumulative", found)
    for task in found.tasks:
        trained.learn(task, datasets_of(found.tasks))
    assert len(trained.memory["stored"]) == sum(len(task.dataset) for task in found.tasks)
    recorded = sum(episode.nbytes for task in found.tasks for episode in task.dataset)
    assert trained.snapshot().bytes()["memory"] > recorded  # what is rehearsed has to be kept


def test_a_reservoir_is_a_fair_sample_of_all_trajectories_seen():
    found = suite("toy-continuous", transitions=600)
    counts = np.zeros(len(found.tasks))
    for seed in range(6):
        trained = tiny_learner("cumulative", found, capacity=60, seed=seed)
        for task in found.tasks:
            trained._store(Lesson(task, windows_in(trained, task), seed, Silent(), datasets_of(found.tasks)))
            trained.roles[task.name] = trained.role_in(task)
        stored = trained.memory["stored"]
        assert len(stored) == 60
        assert len({tuple(row) for row in stored.tolist()}) == 60
        counts += np.bincount(stored[:, 0], minlength=len(found.tasks))
    sizes = np.array([len(task.dataset) for task in found.tasks])
    assert counts / counts.sum() == pytest.approx(sizes / sizes.sum(), abs=0.08)


def test_cumulative_replays_with_each_tasks_own_normaliser():
    found = tiny_suite()
    trained = tiny_learner("cumulative", found)
    trained.learn(found.tasks[0])
    stored = trained.stored(datasets_of(found.tasks))[found.names[0]]
    assert torch.equal(stored.steps.observations, windows_in(trained, found.tasks[0]).steps.observations)
    assert isinstance(Mixture(stored, [stored], 0.5), Mixture)


def test_the_papers_treatment_neither_normalises_nor_masks_actions():
    found = tiny_suite("toy-continuous", 3)
    rail = found.tasks[2]
    equal, paper = (windows_in(tiny_learner("naive", found, treatment=kind), rail) for kind in ("equal", "paper"))
    assert equal.steps.active[0].tolist() == [1.0, 0.0]
    assert paper.steps.active[0].tolist() == [1.0, 1.0]
    assert torch.equal(paper.steps.observations, torch.as_tensor(rail.dataset.observations))
    assert not torch.equal(equal.steps.observations, paper.steps.observations)
