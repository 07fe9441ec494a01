"""Compares the fast implementations on this machine with the reference ones; bit-identical where the arithmetic is.

python -m bench.agreement
"""

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from bench.shapes import ATARI, PANDA, Shape
from holdfast.nets.policy import Episodes
from holdfast.runs.configure import learner
from holdfast.subnets.selection import largest
from holdfast.tasks.suite import suite
from holdfast.training.config import FitConfig
from holdfast.training.fit import fit
from holdfast.training.recorder import Silent
from holdfast.training.step import trainable

Finding = tuple[str, float, float]  # name, relative difference, tolerance


class Stopped(Exception):
    """Raised to interrupt a fit."""


class Interrupted(Silent):
    """A recorder that interrupts a fit at its first save; the second fit resumes from there."""

    def __init__(self) -> None:
        self.saved: dict[str, Tensor] | None = None

    def resume(self, phase: str) -> dict[str, Tensor] | None:
        return dict(self.saved) if self.saved else None

    def due(self) -> bool:
        return self.saved is None

    def save(self, phase: str, tensors: dict[str, Tensor]) -> None:
        if self.saved is not None:
            return
        self.saved = {name: tensor.clone() for name, tensor in tensors.items()}
        raise Stopped


def apart(ours: Tensor, plain: Tensor) -> float:
    """The relative difference of two tensors, in norm."""
    return float((ours.double().cpu() - plain.double().cpu()).norm() / plain.double().norm().cpu().clamp(min=1e-30))


def trained(shape: Shape, device: str, masked: bool, config: FitConfig, recorder: Any = None) -> Tensor:
    """All trained parameters, as one vector."""
    model = (shape.masked() if masked else shape.dense()).to(device)
    fit(model, shape.windows(device, config.packed), config, 0, recorder or Silent(), "task")
    return torch.cat([parameter.detach().flatten() for parameter in trainable(model).values()])


def training(shape: Shape, device: str) -> list[Finding]:
    """Training is deterministic and resumable; captured steps equal eager ones; half precision is close to full."""
    findings: list[Finding] = []
    still = replace(shape, net=replace(shape.net, dropout=0.0))  # packing changes which activations are dropped
    for masked in (True, False):
        name = f"{shape.name} {'masked' if masked else 'dense'}"
        config = FitConfig(steps=60, batch=shape.batch, log_every=20)
        first, recorder = trained(shape, device, masked, config), Interrupted()
        findings.append((f"{name}: trained twice", apart(trained(shape, device, masked, config), first), 0.0))
        try:
            trained(shape, device, masked, config, recorder)
        except Stopped:
            resumed = trained(shape, device, masked, config, recorder)
        findings.append((f"{name}: interrupted and resumed", apart(resumed, first), 0.0))
        exact = replace(config, precision="float32", steps=20, packed=False)
        plain = trained(still, device, masked, replace(exact, captured=False))
        moved = apart(trained(still, device, masked, replace(exact, steps=1)), plain)
        captured = trained(still, device, masked, exact)
        findings.append((f"{name}: captured, eager", apart(captured, plain), 0.05 * moved))
        half = trained(still, device, masked, replace(exact, precision="auto"))
        findings.append((f"{name}: default precision, float32", apart(half, plain), 0.5 * moved))
    return findings


def computing(shape: Shape, device: str) -> list[Finding]:
    """A loss and its gradients equal those of the reference code on a CPU."""
    still = replace(shape, net=replace(shape.net, dropout=0.0), batch=8)
    findings: list[Finding] = []
    for model in (still.masked(), still.dense()):
        gradients = []
        for place in ("cpu", device):
            batch = still.windows(place).sample(still.batch, np.random.default_rng(0))
            with torch.backends.cudnn.flags(allow_tf32=False):  # full float32, as on a CPU
                loss = model.to(place).train()(batch)
                parts = torch.autograd.grad(loss, list(trainable(model).values()))
            gradients.append(torch.cat([loss.detach().view(1), *(part.flatten() for part in parts)]))
        kind = type(model).__name__
        findings.append((f"{shape.name} {kind}: loss and gradients, a CPU's", apart(*reversed(gradients)), 1e-3))
    return findings


def selecting(shape: Shape, device: str) -> list[Finding]:
    """Masks equal those of the reference, with and without ties."""
    model, findings = shape.masked().to(device), []
    assert model.selector is not None
    for ties in (False, True):
        scores = model.scores.detach()
        scores = (scores * 200).round() / 200 if ties else scores
        pieces = zip(scores.abs().cpu().split(model.layout.sizes), model.selector.counts[0], strict=True)
        plain = torch.cat([largest(values, k) for values, k in pieces])
        ours = model.selector.select(scores, model.quotas)
        name = f"{shape.name}: selection with ties" if ties else f"{shape.name}: selection"
        findings.append((name, float((ours.cpu() != plain).sum()), 0.0))
    return findings


def acting(shape: Shape, device: str) -> list[Finding]:
    """A captured policy with fixed shapes acts like one whose context grows."""
    rng, rows = np.random.default_rng(0), 5
    fast, plain = shape.policy(device), shape.policy(device)
    fast.reset(rows)
    plain.single, plain.episodes = False, Episodes(plain, rows)
    differing = 0.0
    for _ in range(2 * shape.net.context):
        observations = rng.integers(0, 255, (rows, *shape.interface.observation)).astype(shape.observations(1).dtype)
        rewards = rng.random(rows)
        pair = fast.act(observations, rewards), plain.act(observations, rewards)
        differing = max(differing, float(np.abs(pair[0] - pair[1]).max()))
    return [(f"{shape.name}: actions of a captured policy", differing, 1e-3)]


def retaining(device: str) -> list[Finding]:
    """Learned tasks do not change."""
    findings = []
    for name in ("tsn-core", "affinity-l", "affinity-h"):
        tasks = suite("toy")
        agent = learner(name, tasks, budget="smoke", device=device)
        before: dict[str, Tensor] = {}
        for task in tasks.tasks:
            agent.learn(task)
            for known in agent.learned:
                now = torch.cat([value.detach().flatten() for value in agent.policy(known).net.parameters()])
                difference = apart(now, before.setdefault(known, now))
                findings.append((f"{name}: {known} after {task.name}", difference, 0.0))
    return [max(findings, key=lambda finding: finding[1])]


def main() -> None:
    """Prints a table, and exits with 1 if a difference exceeds its tolerance."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    findings = retaining(device)
    for shape in (PANDA, ATARI) if device == "cuda" else (PANDA,):
        for check in (computing, selecting, training, acting):
            findings += check(shape, device)
    table = Table("what", "difference", "tolerance", title=device)
    for what, difference, tolerance in findings:
        style = "red" if difference > tolerance else ""
        table.add_row(what, f"{difference:.2g}", f"{tolerance:.2g}", style=style)
    Console().print(table)
    sys.exit(any(difference > tolerance for _, difference, tolerance in findings))


if __name__ == "__main__":
    main()
