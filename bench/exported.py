"""Measures exported policies: the time of one action on one thread, and bytes, of dense and of sparse weights."""

import argparse
import json
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from bench.shapes import ATARI, PANDA, Shape
from holdfast.agent.export import export
from holdfast.agent.exported_folder import load_exported
from holdfast.agent.raw_policy import RawPolicy
from holdfast.nets.policy import Policy

Act = Callable[[np.ndarray], object]  # acts once, in an episode that goes on


@dataclass(frozen=True)
class Row:
    """One form of one policy."""

    network: str
    weights: str  # dense, or the share of weights that are not zero
    form: str
    median_ms: float
    p99_ms: float
    bytes: int


def policies(shape: Shape) -> Iterator[tuple[str, Policy]]:
    """The policy of a new network, and that of its subnetwork with the publication's keep ratio."""
    yield "dense", shape.policy("cpu")
    sparse, masked = shape.policy("cpu"), shape.masked()
    kept = torch.where(masked.mask(), masked.values().detach(), torch.zeros(()))  # not a product, which can be -0.0
    sparse.net.load_state_dict({**sparse.net.state_dict(), **masked.layout.split(kept)})
    yield f"{shape.keep:.0%} kept", sparse


def policy_act(policy: Policy | RawPolicy) -> Act:
    """A policy in PyTorch."""
    policy.reset()
    return policy.act


def onnx_act(path: Path) -> Act:
    """An ONNX file in onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    start = json.loads(session.get_modelmeta().custom_metadata_map["start"])
    state = {name: np.full(one["shape"], one["value"], one["dtype"]) for name, one in start.items()}
    reward = np.zeros(1)

    def act(observation: np.ndarray) -> np.ndarray:
        action, *following = session.run(None, {"observation": observation[None], "reward": reward, **state})
        state.update(zip(state, following, strict=True))
        return action

    return act


def torch_act(path: Path) -> Act:
    """A program of torch.export in PyTorch."""
    extra = {"start.json": ""}
    step = torch.export.load(path, extra_files=extra).module()
    state = {
        name: torch.full(one["shape"], one["value"], dtype=getattr(torch, one["dtype"]))
        for name, one in json.loads(extra["start.json"]).items()
    }
    reward = torch.zeros(1, dtype=torch.float64)

    def act(observation: np.ndarray) -> torch.Tensor:
        with torch.no_grad():
            action, following = step({"observation": torch.as_tensor(observation)[None], "reward": reward}, state)
        state.update(following)
        return action

    return act


def timed(act: Act, observation: np.ndarray, warm: int, steps: int) -> tuple[float, float]:
    """The median and the 99th percentile of the milliseconds of an action, after some that fill the context."""
    for _ in range(warm):
        act(observation)
    times = []
    for _ in range(steps):
        began = time.perf_counter()
        act(observation)
        times.append(1e3 * (time.perf_counter() - began))
    return float(np.median(times)), float(np.quantile(times, 0.99))


def measure(shape: Shape, steps: int) -> Iterator[Row]:
    """All forms of the dense and of the sparse policy."""
    observation, warm = shape.observations(1)[0], shape.net.context + 1
    for weights, policy in policies(shape):
        with tempfile.TemporaryDirectory() as place:
            onnx, program, folder = (Path(place) / name for name in ("policy.onnx", "policy.pt2", "policy"))
            written = [export(policy, path) for path in (onnx, program, folder)]
            sizes = [written[0].dense, *(one.bytes for one in written)]
            acts = [policy_act(policy), onnx_act(onnx), torch_act(program), policy_act(load_exported(folder))]
            for form, size, act in zip(("policy", "ONNX", "pt2", "folder"), sizes, acts, strict=True):
                yield Row(shape.name, weights, form, *timed(act, observation, warm, steps), size)


def main() -> None:
    """Prints the table, and writes all rows to the file of `--json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000, help="actions that are timed")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = [row for shape in (PANDA, ATARI) for row in measure(shape, arguments.steps)]
    title = f"one action, one thread, {platform.processor() or platform.machine()}"
    table = Table("network", "weights", "form", "median ms", "p99 ms", "MB", title=title)
    for row in rows:
        times = f"{row.median_ms:.2f}", f"{row.p99_ms:.2f}"
        table.add_row(row.network, row.weights, row.form, *times, f"{row.bytes / 1e6:.2f}")
    Console().print(table)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
