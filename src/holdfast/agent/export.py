"""Policies as files for elsewhere: an ONNX graph, a program of torch.export, or a folder that holdfast loads."""

import io
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch

from holdfast.agent.exported_folder import write_folder
from holdfast.agent.raw_policy import check_layout
from holdfast.agent.step import Step
from holdfast.data.files import write_bytes
from holdfast.data.layout import Layout
from holdfast.data.validation import Range, validated
from holdfast.errors import Mistake
from holdfast.nets.backbone import State
from holdfast.nets.policy import Policy

OPSET = 20  # the first with GELU as one operator
START = "start"  # the metadata with the initial state
OTHERS = (".pt", ".pth", ".ckpt", ".safetensors", ".json", ".zip", ".tflite", ".engine")  # not meant as folders
LARGEST = 2**31 - 1  # bytes: an ONNX file cannot be larger


@dataclass(frozen=True)
class Export:
    """What was written."""

    path: Path
    kind: str  # onnx, pt2 or folder
    bytes: int
    dense: int  # bytes of the policy's parameters, with their zeros


def export(policy: Policy, path: Path | str, layout: Layout | None = None, rows: int = 1) -> Export:
    """Writes a policy to `policy.onnx`, to `policy.pt2`, or, without such a suffix, into a new folder.

    The exported function takes raw observations and gives the environment's actions. `layout` is that of a user's own
    data. A graph acts in `rows` episodes at once; a folder acts in any number.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in OTHERS:
        raise Mistake(f"{path} cannot be written as {suffix}: give a name that ends in .onnx or .pt2, or a folder")
    rows = validated("rows", rows, Annotated[int, Range(least=1)])
    if layout:
        check_layout(policy, layout)
    dense = sum(parameter.nbytes for parameter in policy.net.parameters())
    if suffix == ".onnx":
        content = onnx_graph(Step(policy, layout), rows)
    elif suffix == ".pt2":
        content = torch_program(Step(policy, layout), rows)
    else:
        return Export(path, "folder", write_folder(policy, path, layout), dense)
    write_bytes(path, content)
    return Export(path, suffix[1:], len(content), dense)


def onnx_graph(step: Step, rows: int) -> bytes:
    """A step as an ONNX model; its metadata `start` says what the state is at the beginning."""
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise Mistake("onnx and onnxscript are not installed: pip install 'holdfast[onnx]'") from None
    state = step.start(rows)
    with exporting():
        program = torch.onnx.export(
            traced(step, rows),
            dynamo=True,
            verbose=False,
            opset_version=OPSET,
            input_names=[*step.inputs(rows), *state],
            output_names=["action", *(f"next_{name}" for name in state)],
        )
        assert program is not None
        model = program.model_proto
    graph = model.graph
    for part in (graph, *graph.node, *graph.value_info, *graph.input, *graph.output):
        part.ClearField("metadata_props")  # the exporter's own notes
    entry = model.metadata_props.add()
    entry.key, entry.value = START, json.dumps(described(state))
    if model.ByteSize() > LARGEST:
        raise Mistake("the policy is too large for an ONNX file, which holds 2 GiB: export it to .pt2 or to a folder")
    return model.SerializeToString(deterministic=True)


def torch_program(step: Step, rows: int) -> bytes:
    """A step as a program of torch.export; its extra file `start.json` says what the state is at the beginning."""
    content = io.BytesIO()
    with exporting():
        program = traced(step, rows)
        torch.export.save(program, content, extra_files={f"{START}.json": json.dumps(described(step.start(rows)))})
    return content.getvalue()


def traced(step: Step, rows: int) -> torch.export.ExportedProgram:
    """The operations of a step."""
    with torch.no_grad():
        program = torch.export.export(step, (step.inputs(rows), step.start(rows)))
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # names files of this machine
    return program


def described(state: State) -> dict[str, Any]:
    """The initial state as plain data: shape, dtype, and the value that every entry has."""
    found = {}
    for name, tensor in state.items():
        if (tensor != tensor.flatten()[0]).any():
            raise Mistake(f"the state {name!r} of this backbone cannot be exported: it must begin with one value")
        dtype = str(tensor.dtype).removeprefix("torch.")
        found[name] = {"shape": list(tensor.shape), "dtype": dtype, "value": tensor.flatten()[0].item()}
    return found


@contextmanager
def exporting() -> Iterator[None]:
    """Keeps PyTorch's exporters from reporting on themselves."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
