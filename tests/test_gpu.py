"""Training and acting on a GPU: the same bits every time, and what the plain code on a processor says."""

import gc
import signal
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast.agent.progress import FolderRecorder
from holdfast.data.windows import Sampler
from holdfast.evaluation.certificates import changed
from holdfast.gpu.capture import nothing_freed
from holdfast.learners.learner import new_net
from holdfast.nets.policy import CapturedEpisodes, Episodes, Policy
from holdfast.tasks.processes import forkserver
from holdfast.tasks.suite import Suite
from holdfast.training.adamw import FlatAdamW, Optimiser, TorchAdamW
from holdfast.training.captured import CapturedLoop
from holdfast.training.step import Trainer, trainable
from tests.test_resume import interruptions, run_tiny, run_until, save_and_stop
from tests.test_retention import learn_and_certify
from tests.tiny import ALL, RETAINING, contents, pixel_suite, tiny_learner, tiny_plan, tiny_suite

fitting = import_module("holdfast.training.fit")  # not the function
SUITES = ["toy", "toy-continuous", "pixels"]
KINDS = ["naive", "tsn-core"]  # a dense network, and one under a mask
EXACT = {"fit__precision": "float32", "fit__packed": False, "net__dropout": 0.0}  # so that both ways compute the same


def tasks(name: str) -> Suite:
    return pixel_suite() if name == "pixels" else tiny_suite(name)


def fitted(name: str, suite: str, device: str, **settings: Any) -> tuple[nn.Module, Sampler]:
    """The model that learning the first task trained, and the data that it was trained on."""
    seen: list[tuple[nn.Module, Sampler]] = []
    train, found = fitting.train, tasks(suite)

    def noted(trainer: Trainer, windows: Sampler, *rest: Any, **more: Any) -> list[float]:
        seen.append((trainer.model, windows))
        return train(trainer, windows, *rest, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "train", noted)
        tiny_learner(name, found, device, **settings).learn(found.tasks[0])
    return seen[0]


def moved(model: nn.Module) -> Tensor:
    """All that training moves."""
    return torch.cat([parameter.detach().double().cpu().flatten() for parameter in trainable(model).values()])


def apart(one: Tensor, other: Tensor) -> float:
    """The distance, as a share of the other's size."""
    return float((one - other).norm() / other.norm())


# Steps


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("name", KINDS)
def test_a_captured_fit_is_taken_twice_to_the_same_bits(name: str, suite: str, gpu: str) -> None:
    first, second = (moved(fitted(name, suite, gpu)[0]) for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("name", KINDS)
def test_captured_steps_are_within_a_twentieth_of_their_way_of_plain_ones(name: str, suite: str, gpu: str) -> None:
    plain = moved(fitted(name, suite, gpu, **EXACT, fit__captured=False)[0])
    captured = moved(fitted(name, suite, gpu, **EXACT)[0])
    begin = moved(fitted(name, suite, gpu, **EXACT, fit__captured=False, fit__steps=1)[0])
    assert apart(begin, plain) > 0
    assert apart(captured, plain) <= 0.05 * apart(begin, plain)


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("name", KINDS)
def test_half_precision_leads_nearer_to_full_precision_than_half_its_way(name: str, suite: str, gpu: str) -> None:
    full = moved(fitted(name, suite, gpu, **EXACT)[0])
    half = moved(fitted(name, suite, gpu, **EXACT | {"fit__precision": "bfloat16"})[0])
    begin = moved(fitted(name, suite, gpu, **EXACT, fit__steps=1)[0])
    assert 0 < apart(half, full) <= 0.5 * apart(begin, full)


@pytest.mark.parametrize("name", KINDS)
def test_steps_are_captured_on_a_gpu_and_only_there(name: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, advance = count(), CapturedLoop.advance

    def counted(self: CapturedLoop, steps: range) -> Tensor:
        next(taken)
        return advance(self, steps)

    monkeypatch.setattr(CapturedLoop, "advance", counted)
    fitted(name, "toy", device)
    assert next(taken) == (3 if device == "cuda" else 0)  # 12 steps, of which every fourth is recorded


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("name", KINDS)
def test_loss_and_gradients_are_those_of_a_processor_to_a_thousandth(name: str, suite: str, gpu: str) -> None:
    (plain, here), (ours, there) = (fitted(name, suite, place, **EXACT, fit__steps=1) for place in ("cpu", gpu))
    ours.load_state_dict(plain.state_dict())
    found = []
    for model, source in ((plain, here), (ours, there)):
        with torch.backends.cudnn.flags(allow_tf32=False):  # as many digits as a processor has
            loss = model.train()(source.sample(8, np.random.default_rng(0)))  # type: ignore[operator]
            gradients = torch.autograd.grad(loss, list(trainable(model).values()))
        found.append(torch.cat([part.detach().double().cpu().flatten() for part in (loss, *gradients)]))
    assert apart(found[1], found[0]) <= 1e-3


# The optimiser

SHAPES = {"a": (5, 13), "b": (64,), "c": (1,), "d": (3, 2, 100)}  # none but one of a length that is a whole boundary


def parameters(device: str) -> dict[str, nn.Parameter]:
    rng = torch.Generator().manual_seed(0)
    return {name: nn.Parameter(torch.randn(shape, generator=rng).to(device)) for name, shape in SHAPES.items()}


def gradients_of(step: int, device: str) -> list[Tensor]:
    rng = torch.Generator().manual_seed(step)
    return [torch.randn(shape, generator=rng).to(device) for shape in SHAPES.values()]


def stepped(optimiser: Optimiser, steps: range, device: str) -> None:
    """Takes these steps at a rate that changes; on a GPU it is a tensor, as in captured steps."""
    for step in steps:
        rate = 1e-2 / (1 + step)
        optimiser.set_rate(torch.tensor(rate, device=device) if device == "cuda" else rate)
        optimiser.take(gradients_of(step, device))
        optimiser.step()


def torchs(decay: float, clip: float, device: str) -> dict[str, nn.Parameter]:
    """The parameters after twelve steps of plain AdamW."""
    found = parameters(device)
    adamw = torch.optim.AdamW(found.values(), weight_decay=decay)
    for step in range(12):
        for parameter, gradient in zip(found.values(), gradients_of(step, device), strict=True):
            parameter.grad = gradient
        nn.utils.clip_grad_norm_(found.values(), clip)
        adamw.param_groups[0]["lr"] = 1e-2 / (1 + step)
        adamw.step()
    return found


@pytest.mark.parametrize("clip", [0.7, 1e9])
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("kind", [FlatAdamW, TorchAdamW])
def test_our_optimisers_are_plain_adamw(kind: type, decay: float, clip: float, kernel_device: str) -> None:
    ours = parameters(kernel_device)
    stepped(kind(ours, decay, clip), range(12), kernel_device)
    for name, plain in torchs(decay, clip, kernel_device).items():
        torch.testing.assert_close(ours[name], plain, rtol=1e-5, atol=1e-6)


def test_flat_adamw_goes_on_from_what_it_remembers_to_the_same_bits(kernel_device: str) -> None:
    whole, broken = parameters(kernel_device), parameters(kernel_device)
    stepped(FlatAdamW(whole, 0.1, 0.7), range(12), kernel_device)
    first = FlatAdamW(broken, 0.1, 0.7)
    stepped(first, range(5), kernel_device)
    resumed = {name: nn.Parameter(parameter.detach().clone()) for name, parameter in broken.items()}
    second = FlatAdamW(resumed, 0.1, 0.7)
    for name, tensor in second.tensors().items():
        tensor.copy_(first.tensors()[name])
    stepped(second, range(5, 12), kernel_device)
    assert all(torch.equal(resumed[name], whole[name]) for name in SHAPES)


def test_flat_adamw_moves_parameters_where_they_lie_end_to_end(kernel_device: str) -> None:
    """A captured step writes to memory, so what a parameter is must never be put elsewhere."""
    ours = parameters(kernel_device)
    optimiser = FlatAdamW(ours, 0.1, 0.7)
    places = [parameter.data_ptr() for parameter in ours.values()]
    assert all(torch.equal(ours[name], plain) for name, plain in parameters(kernel_device).items())
    stepped(optimiser, range(2), kernel_device)
    assert [parameter.data_ptr() for parameter in ours.values()] == places
    assert places == sorted(places)
    assert places[-1] - places[0] < optimiser.values.nbytes


# Runs


@pytest.mark.parametrize("name", ALL)
def test_a_run_on_a_gpu_gives_the_same_bits_every_time(name: str, gpu: str, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        run_tiny(name, tmp_path / folder, device=gpu)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.parametrize("name", ALL)
def test_interrupted_at_every_save_and_resumed_on_a_gpu_gives_the_same_bits(
    name: str, gpu: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_tiny(name, tmp_path / "whole", device=gpu)
    monkeypatch.setattr(FolderRecorder, "save", save_and_stop)
    # at steps 4, 8 and 12 of 12, in three tasks, or of 36 in all tasks at once
    assert interruptions(name, tmp_path / "broken", device=gpu) == 9
    assert contents(tmp_path / "whole") == contents(tmp_path / "broken")


def test_a_process_killed_on_a_gpu_and_started_again_gives_the_same_bits(gpu: str, tmp_path: Path) -> None:
    run_tiny("affinity-l", tmp_path / "whole", device=gpu)
    codes = []
    for event in (25, 40, 0):  # the last one is never killed
        words = {"event": event, "name": "affinity-l", "path": tmp_path / "killed", "device": gpu}
        process = forkserver().Process(target=run_until, kwargs=words)
        process.start()
        process.join()
        codes.append(process.exitcode)
    assert codes == [-signal.SIGKILL, -signal.SIGKILL, 0]
    assert contents(tmp_path / "whole") == contents(tmp_path / "killed")


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("name", RETAINING)
def test_what_was_learned_on_a_gpu_is_equal_to_the_bit_after_every_later_task(name: str, suite: str, gpu: str) -> None:
    found = tasks(suite)
    assert changed(learn_and_certify(tiny_learner(name, found, gpu), found)) == []


# Acting


def policy_on(device: str, suite: str) -> Policy:
    found = tasks(suite)
    task = found.tasks[0]
    plan = tiny_plan(found, "naive")
    net = new_net(plan.config.net, found.interface, 0).to(device)
    return Policy(net, task.interface.normaliser(task.dataset), task.target, 1.0)


def actions(policy: Policy, rows: int, suite: str) -> np.ndarray:
    """What a policy does in the first steps of a dataset, for longer than its context."""
    observations = tasks(suite).tasks[0].dataset.observations
    rng = np.random.default_rng(0)
    return np.stack([policy.act(observations[rng.integers(20, size=rows)], rng.random(rows)) for _ in range(9)])


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("rows", [1, 5])
def test_acting_in_fixed_shapes_is_plain_acting_and_the_same_bits_every_time(
    rows: int, suite: str, device: str
) -> None:
    """On a GPU the fixed shapes are captured as a graph."""
    fixed, plain = policy_on(device, suite), policy_on(device, suite)
    for policy, kind in ((fixed, CapturedEpisodes), (plain, Episodes)):
        policy.episodes, policy.single = kind(policy, rows), False
    first = actions(fixed, rows, suite)
    np.testing.assert_allclose(first, actions(plain, rows, suite), rtol=1e-3, atol=1e-3)
    fixed.reset(rows)
    assert np.array_equal(actions(fixed, rows, suite), first)


def test_a_policy_on_a_gpu_acts_by_a_graph(gpu: str) -> None:
    policy = policy_on(gpu, "toy")
    policy.reset(3)
    assert isinstance(policy.episodes, CapturedEpisodes)
    assert policy.episodes.replay != policy.episodes.advance


def test_the_garbage_collector_rests_while_a_graph_is_captured() -> None:
    with nothing_freed():
        assert not gc.isenabled()
    assert gc.isenabled()
