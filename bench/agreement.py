"""Whether the fast ways on this machine say what the plain ways say: to the bit where the arithmetic is the same.

python -m bench.agreement
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from bench.shapes import ATARI, PANDA, Shape
from holdfast.nets.policy import Context
from holdfast.runs.configure import learner
from holdfast.subnets.selection import largest
from holdfast.tasks.suite import suite
from holdfast.training.config import FitConfig
from holdfast.training.fit import fit
from holdfast.training.recorder import Silent
from holdfast.training.step import trainable

Finding = tuple[str, float, float]  # what, how far apart, how far it may be


class Stopped(Exception):
    """A fit that was interrupted on purpose."""


class Interrupted(Silent):
    """Keeps the first save and stops there; the second time it goes on."""

    def __init__(self) -> None:
        self.saved: dict[str, Tensor] | None = None

    def resume(self) -> dict[str, Tensor] | None:
        return dict(self.saved) if self.saved else None

    def due(self) -> bool:
        return self.saved is None

    def save(self, tensors: dict[str, Tensor]) -> None:
        self.saved = {name: tensor.clone() for name, tensor in tensors.items()}
        raise Stopped


def apart(ours: Tensor, plain: Tensor) -> float:
    """The distance, as a share of the plain one's size."""
    return float((ours.double().cpu() - plain.double().cpu()).norm() / plain.double().norm().cpu().clamp(min=1e-30))


def trained(shape: Shape, device: str, masked: bool, config: FitConfig, recorder: Any = None) -> Tensor:
    """All that training moved."""
    model = (shape.masked() if masked else shape.dense()).to(device)
    fit(model, shape.windows(device, config.packed), config, 0, recorder or Silent())
    return torch.cat([parameter.detach().flatten() for parameter in trainable(model).values()])


def training(shape: Shape, device: str) -> list[Finding]:
    """Twice the same, resumed the same; captured as one by one; half precision not far from full."""
    found: list[Finding] = []
    still = replace(shape, net=replace(shape.net, dropout=0.0))  # drawn in other places when packed otherwise
    for masked in (True, False):
        name = f"{shape.name} {'masked' if masked else 'dense'}"
        config = FitConfig(steps=60, batch=shape.batch, log_every=20)
        first, recorder = trained(shape, device, masked, config), Interrupted()
        found.append((f"{name}: trained twice", apart(trained(shape, device, masked, config), first), 0.0))
        try:
            trained(shape, device, masked, config, recorder)
        except Stopped:
            resumed = trained(shape, device, masked, config, recorder)
        found.append((f"{name}: interrupted and resumed", apart(resumed, first), 0.0))
        exact = replace(config, precision="float32", steps=20, packed=False)
        plain = trained(still, device, masked, replace(exact, captured=False))
        moved = apart(trained(still, device, masked, replace(exact, steps=1)), plain)
        found.append(
            (f"{name}: captured, one by one", apart(trained(still, device, masked, exact), plain), 0.05 * moved)
        )
        half = trained(still, device, masked, replace(exact, precision="auto"))
        found.append((f"{name}: its precision, float32", apart(half, plain), 0.5 * moved))
    return found


def computing(shape: Shape, device: str) -> list[Finding]:
    """A loss and its gradients are those of the plain code on a CPU."""
    still = replace(shape, net=replace(shape.net, dropout=0.0), batch=8)
    found = []
    for model in (still.masked(), still.dense()):
        gradients = []
        for place in ("cpu", device):
            batch = still.windows(place).sample(still.batch, np.random.default_rng(0))
            with torch.backends.cudnn.flags(allow_tf32=False):  # as many digits as a CPU has
                loss = model.to(place).train()(batch)  # type: ignore[operator]
                there = torch.autograd.grad(loss, list(trainable(model).values()))
            gradients.append(torch.cat([loss.detach().view(1), *(gradient.flatten() for gradient in there)]))
        kind = type(model).__name__
        found.append((f"{shape.name} {kind}: loss and gradients, a CPU's", apart(*reversed(gradients)), 1e-3))
    return found


def selecting(shape: Shape, device: str) -> list[Finding]:
    """The masks have the bits of the reference, with and without ties."""
    model, found = shape.masked().to(device), []
    for ties in (False, True):
        scores = model.scores.detach()
        scores = (scores * 200).round() / 200 if ties else scores
        pieces = zip(scores.abs().cpu().split(model.layout.sizes), model.selector.counts, strict=True)
        plain = torch.cat([largest(values, k) for values, k in pieces])
        ours = model.selector.select(scores, model.feasible)
        found.append(
            (f"{shape.name}: selection{' with ties' if ties else ''}", float((ours.cpu() != plain).sum()), 0.0)
        )
    return found


def acting(shape: Shape, device: str) -> list[Finding]:
    """What a policy predicts in fixed shapes is what it predicts as the context grows and rolls."""
    rng, rows = np.random.default_rng(0), 5
    fast, plain = shape.policy(device), shape.policy(device)
    fast.reset(rows)
    plain.context, plain.single = Context(plain, rows), False
    differing = 0.0
    for _ in range(2 * shape.net.context):
        observations = rng.integers(0, 255, (rows, *shape.interface.observation)).astype(shape.observations(1).dtype)
        rewards = rng.random(rows)
        pair = fast.act(observations, rewards), plain.act(observations, rewards)
        differing = max(differing, float(np.abs(pair[0] - pair[1]).max()))
    return [(f"{shape.name}: actions of a captured policy", differing, 1e-3)]


def retaining(device: str) -> list[Finding]:
    """What was learned does not change by a bit."""
    found = []
    for name in ("tsn-core", "affinity-l", "affinity-h"):
        tasks = suite("toy")
        agent = learner(name, tasks, budget="smoke", device=device)
        before: dict[str, Tensor] = {}
        for task in tasks.tasks:
            agent.learn(task)
            for known in agent.learned:
                now = torch.cat([value.detach().flatten() for value in agent.policy(known).net.parameters()])
                found.append((f"{name}: {known} after {task.name}", apart(now, before.setdefault(known, now)), 0.0))
    return [max(found, key=lambda one: one[1])]


def main() -> None:
    """Prints what was found, and fails if anything is farther apart than it may be."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    checks: list[Callable[[], list[Finding]]] = [lambda: retaining(device)]
    for shape in (PANDA, ATARI) if device == "cuda" else (PANDA,):
        for check in (computing, selecting, training, acting):
            checks.append(lambda check=check, shape=shape: check(shape, device))  # type: ignore[misc]
    table, wrong = Table("what", "apart", "may be", title=device), 0
    for run in checks:
        for what, far, most in run():
            wrong += far > most
            table.add_row(what, f"{far:.2g}", f"{most:.2g}", style="red" if far > most else "")
    Console().print(table)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
