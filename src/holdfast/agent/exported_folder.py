"""A policy in a folder of its own: its tensors without their zeros, and a record of what they belong to."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from holdfast.agent.raw_policy import RawPolicy
from holdfast.agent.store import UNFIT
from holdfast.data.conform import conform
from holdfast.data.directory import Directory
from holdfast.data.files import TENSORS, damaged, encoded, packed, unpacked, unwritable, write_bytes
from holdfast.data.layout import Layout
from holdfast.data.normaliser import Normaliser
from holdfast.errors import Mistake
from holdfast.learners.codes import TaskCodes
from holdfast.learners.learner import new_net
from holdfast.learners.tensors import Tensors, part, under
from holdfast.nets.adapted import merged
from holdfast.nets.backbone import Backbone, NetConfig, net_config, unallocated
from holdfast.nets.conditioned import Conditioned
from holdfast.nets.policy import Policy
from holdfast.registry import NETS
from holdfast.subnets.layout import Layout as Parameters
from holdfast.subnets.stored_masks import read_masks, stored_masks
from holdfast.subnets.stored_weights import read_weights, stored_weights
from holdfast.tasks.interface import Interface

RECORD, WEIGHTS = "config.json", "weights.safetensors"
FORMAT = 1
PARTS = ("net", "nonzero", "values", "normaliser", "code")  # of the tensors' names, before the first slash
HEADER = 2**12  # bytes that the name, shape and type of a tensor may take in a file
ROOM = 2**28  # bytes of tensors that a small file may grow to
GROWTH = 64  # how many times as large as its file a policy may be beyond that
STATE = 2**28  # largest state of one episode, in bytes


@dataclass(frozen=True)
class Record:
    """What a folder says of its tensors."""

    format: int
    backbone: str
    net: dict[str, Any]
    """The settings of the backbone."""
    interface: dict[str, Any]
    code: int
    """Length of the task's code, which the network reads after the observation; 0 without one."""
    target: float
    return_scale: float
    layout: dict[str, Any] | None
    """The layout of a user's own data."""
    sha256: str
    """The hash of the tensors' file."""

    def __post_init__(self) -> None:
        if self.return_scale <= 0 or self.code < 0:
            raise Mistake("the scale of returns must be positive, and the length of a code at least 0")


def write_folder(policy: Policy, path: Path, layout: Layout | None = None) -> int:
    """Writes a policy into a new folder, whole or not at all; returns its bytes."""
    net, code = merged(policy.net), torch.empty(0)
    if isinstance(net, Conditioned):
        code = net.code
        net = net.net
    tensors = {
        **stored(net.state_dict()),
        **under("normaliser", {"shift": policy.normaliser.shift, "scale": policy.normaliser.scale}),
        "code": code,
    }
    content, digest = packed(tensors)
    record = Record(
        format=FORMAT,
        backbone=registered(net.config),
        net=asdict(net.config),
        interface=policy.interface.record(),
        code=len(code),
        target=policy.target,
        return_scale=policy.return_scale,
        layout=layout.record() if layout else None,
        sha256=digest,
    )
    files = {WEIGHTS: content, RECORD: encoded(asdict(record))}
    write_whole(path, files)
    return sum(len(file) for file in files.values())


def registered(config: NetConfig) -> str:
    """The name of the backbone with these settings."""
    for name in NETS:
        if NETS[name] is type(config):
            return name
    raise Mistake(f"the backbone of {type(config).__name__} has no name: register it, so that the folder can be loaded")


def write_whole(path: Path, files: Mapping[str, bytes]) -> None:
    """Makes a folder with these files; it gets its name when all of them are written."""
    if os.path.lexists(path):
        raise Mistake(f"{path} already exists: choose another folder, or remove it")
    aside = path.parent / f".{path.name}.{os.getpid()}.part"
    try:
        shutil.rmtree(aside, ignore_errors=True)  # left by a killed process
        for name, content in files.items():
            write_bytes(aside / name, content)
        os.rename(aside, path)
    except (OSError, ValueError) as problem:
        raise unwritable(problem, path) from problem
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def stored(tensors: Mapping[str, Tensor]) -> Tensors:
    """A network's tensors as they are, or the bits that say where they are not zero and the other numbers."""
    parameters = floats(tensors)
    flat = parameters.join(tensors).cpu()
    nonzero = flat.view(torch.int32) != 0  # -0.0 is kept
    pieces = [values[chosen] for values, chosen in parameters.pieces(flat, nonzero)]
    coded = under("nonzero", stored_masks([nonzero])[0]) | under("values", stored_weights(pieces))
    if sum(tensor.nbytes for tensor in coded.values()) >= flat.nbytes:
        return under("net", dict(tensors))
    return coded | under("net", parameters.outside(tensors))


def floats(tensors: Mapping[str, Tensor]) -> Parameters:
    """The names and shapes of the tensors of type float32, which are nearly all."""
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items() if tensor.dtype == torch.float32}
    return Parameters(tuple(shapes), tuple(shapes.values()))


def load_exported(path: Path | str) -> Policy | RawPolicy:
    """The policy in a folder that `export` wrote, on the CPU; with a layout, it acts on raw observations.

    Names, shapes and sizes are compared with the folder's record before a network is allocated.
    """
    folder = Directory(Path(path))
    plain = folder.read_json(RECORD)
    try:
        record = conform(plain, Record)
    except Mistake as problem:
        raise damaged(folder.path / RECORD, problem) from problem
    if record.format != FORMAT:
        raise Mistake(
            f"{path} has format {record.format}, and this version of holdfast reads format {FORMAT}: update it"
        )
    settings = type(net_config(record.backbone))  # raises if it is that of a plugin which is not loaded
    try:
        interface = Interface.read(record.interface)
        layout = None if record.layout is None else Layout.read(record.layout)
        config = conform(record.net, settings, "net")
        shape = TaskCodes(record.code).widened(interface)
        outline = unallocated(config, shape)
        size = checked_size(outline)
    except (Mistake, OverflowError, *UNFIT) as problem:
        raise damaged(folder.path / RECORD, problem) from problem
    content = folder.read_bytes(WEIGHTS, largest_file(size, len(outline.state_dict()), shape))
    tensors = unpacked(content, folder.path / WEIGHTS, record.sha256)
    try:
        if size > max(ROOM, GROWTH * len(content)):
            raise Mistake(f"a network of {size} bytes does not fit into {len(content)}")
        if unknown := {name for name in tensors if name.split("/")[0] not in PARTS}:
            raise Mistake(f"{min(unknown)!r} is not a tensor of a policy")
        parameters = read_stored(tensors, outline.state_dict())
        normaliser = read_normaliser(part(tensors, "normaliser"), interface)
        code = fitting("code", tensors["code"], torch.empty(record.code))
        net = new_net(config, shape, 0)
        net.load_state_dict(parameters)
        if record.code:
            net = Conditioned(net, code, interface)
        policy = Policy(net, normaliser, record.target, record.return_scale)
        return RawPolicy(policy, layout) if layout else policy
    except (Mistake, *UNFIT) as problem:
        raise damaged(folder.path / WEIGHTS, problem) from problem


def checked_size(outline: Backbone) -> int:
    """The bytes of a network's tensors; raises if what it keeps of an episode would take the memory."""
    state = sum(tensor.nbytes for tensor in outline.start(1).values())
    if state > STATE:
        raise Mistake(f"the state of an episode would take {state} bytes, and at most {STATE} are allowed")
    return sum(tensor.nbytes for tensor in outline.state_dict().values())


def largest_file(size: int, tensors: int, shape: Interface) -> int:
    """The most bytes that a network, a normaliser and a code take in a file, in so many tensors and ten others."""
    normaliser = 2 * 4 * prod(shape.observation)
    return min(size + normaliser + HEADER * (tensors + 10), TENSORS)


def read_stored(tensors: Tensors, outline: Mapping[str, Tensor]) -> Tensors:
    """The tensors that `stored` stored; raises unless they have the names, shapes and types of the network's."""
    found = part(tensors, "net")
    if nonzero := part(tensors, "nonzero"):
        parameters = floats(outline)
        (mask,) = read_masks([nonzero], parameters.total)
        flat = torch.zeros(parameters.total)
        counts = [int(chosen.sum()) for (chosen,) in parameters.pieces(mask)]
        flat[mask] = read_weights(part(tensors, "values"), counts)
        if both := found.keys() & set(parameters.names):
            raise ValueError(f"{min(both)} is there twice")
        found |= parameters.split(flat)
    if found.keys() != outline.keys():
        raise ValueError(f"its tensors are not those of the network: {sorted(found.keys() ^ outline.keys())[:3]}")
    return {name: fitting(name, found[name], expected) for name, expected in outline.items()}


def read_normaliser(tensors: Tensors, interface: Interface) -> Normaliser:
    """The normaliser of observations; raises unless it fits them."""
    shape = interface.observation if tensors["scale"].ndim else ()
    expected = torch.empty(shape, device="meta")
    shift, scale = (fitting(name, tensors[name], expected) for name in ("shift", "scale"))
    if not (shift.isfinite().all() and scale.isfinite().all() and (scale > 0).all()):
        raise ValueError("the normaliser must be finite, and its scale positive")
    return Normaliser(shift, scale)


def fitting(name: str, tensor: Tensor, expected: Tensor) -> Tensor:
    """The tensor; raises unless it has the shape and the type of the expected one."""
    if tensor.shape != expected.shape or tensor.dtype != expected.dtype:
        raise ValueError(f"{name} must be {expected.dtype} of shape {tuple(expected.shape)}")
    return tensor
