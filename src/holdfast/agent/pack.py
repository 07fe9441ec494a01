"""A pack: one task of an agent in one file, for another agent to install."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from holdfast.agent.plan import AgentPlan
from holdfast.agent.store import UNFIT
from holdfast.agent.task_record import TaskRecord
from holdfast.data.conform import conform
from holdfast.data.files import read_bytes, sealed, unsealed, write_bytes
from holdfast.data.validation import shown
from holdfast.errors import Mistake
from holdfast.evaluation.certificates import HASH, fingerprint
from holdfast.learners.learner import Learner
from holdfast.learners.subnetworks import SubnetworkConfig, SubnetworkLearner
from holdfast.learners.tensors import Tensors, under
from holdfast.subnets.delta import Delta, delta_of
from holdfast.subnets.layout import Layout
from holdfast.subnets.stored_changes import stored_change
from holdfast.subnets.stored_masks import stored_masks
from holdfast.subnets.stored_weights import stored_weights
from holdfast.tasks.interface import Interface
from holdfast.tasks.recorded import interface_of
from holdfast.tasks.task import check_name

FORMAT = 1
RECORD = "record"  # the tensor with the record, as the bytes of JSON
LARGEST = 2**30  # bytes of a pack
LARGEST_RECORD = 2**24  # bytes


@dataclass(frozen=True)
class PackRecord:
    """What a pack says of its tensors."""

    format: int
    task: str
    whole: bool
    """Whether it has all weights that its policy reads, so that it needs no weights of other tasks."""
    learner: str
    settings: dict[str, Any]
    """The settings that the network depends on."""
    horizon: int
    """The longest episode that its network was built for."""
    target: float
    """The return that the policy is asked for, as the network sees it."""
    layout: Layout
    """The parameters that masks cover."""
    base: str
    """A hash of the weights that it reuses."""
    fingerprint: str
    """That of its certificate."""
    dataset: str
    """The fingerprint of the data that it was learned from."""
    note: TaskRecord

    def __post_init__(self) -> None:
        check_name(self.task)
        for found in (self.base, self.fingerprint):
            if not HASH.fullmatch(found):
                raise Mistake(f"{shown(found)} is not a hash")

    @property
    def interface(self) -> Interface:
        """The interface that its network was built for."""
        return interface_of(self.note.read_layout(), self.horizon)


@dataclass(frozen=True)
class Pack:
    """The content of a pack; its tensors are not checked yet."""

    path: Path
    record: PackRecord
    tensors: Tensors
    sha256: str
    bytes: int


@dataclass(frozen=True)
class Packed:
    """A task that was written as one file."""

    path: Path
    bytes: int
    sha256: str


def packed_task(learner: Learner, plan: AgentPlan, name: str, note: TaskRecord, dataset: str, *, whole: bool) -> bytes:
    """A learned task as the content of a pack; the same task gives the same bytes."""
    learner = with_subnetworks(learner, plan)
    role, subnetwork = learner.role(name, None), learner.subnetworks[name]
    shape = learner.shapes[subnetwork.copy]
    layout, copy = learner.layout(shape), learner.model_copies[subnetwork.copy]
    owned = torch.zeros_like(subnetwork.mask)
    for other, earlier in learner.inside(subnetwork.copy).items():
        if other == name:
            break
        owned |= earlier.mask
    delta = delta_of(subnetwork, copy, owned, whole=whole)
    record = PackRecord(
        format=FORMAT,
        task=name,
        whole=whole,
        learner=plan.learner,
        settings=settings_of(plan),
        horizon=shape.horizon,
        target=role.target,
        layout=layout,
        base=delta.base,
        fingerprint=fingerprint(learner.policy(name)),
        dataset=dataset,
        note=note,
    )
    text = json.dumps(asdict(record)).encode()
    as_tensor = torch.from_numpy(np.frombuffer(text, np.uint8).copy())
    content = sealed({RECORD: as_tensor, **stored_delta(delta, layout), **under("kept", learner.kept[name])})
    if len(content) > LARGEST:
        raise Mistake(f"{name} would take {len(content)} bytes, and a pack has at most {LARGEST}: copy the folder")
    return content


def write_pack(path: Path, content: bytes) -> Packed:
    """Writes a pack, whole or not at all."""
    write_bytes(path, content)
    return Packed(path, len(content), hashlib.sha256(content).hexdigest())


def with_subnetworks(learner: Learner, plan: AgentPlan) -> SubnetworkLearner:
    """The learner; raises unless its tasks have subnetworks that stay as they are."""
    if not isinstance(learner, SubnetworkLearner):
        raise Mistake(
            f"{plan.learner} gives tasks no subnetworks, and only those can be packed and installed: export the policy"
        )
    if not learner.retains:
        raise Mistake("with subnets.outside = shared, tasks change when others are learned: they cannot be packed")
    return learner


def settings_of(plan: AgentPlan) -> dict[str, Any]:
    """The settings that the network of a task depends on, as plain data."""
    config = plan.config
    assert isinstance(config, SubnetworkConfig)
    subnets = config.subnets
    settings = {
        "backbone": plan.backbone,
        "net": asdict(config.net),
        "subnets": {"exclude": subnets.exclude, "biases": subnets.biases, "outside": subnets.outside},
        "fit": {"return_scale": config.fit.return_scale},
    }
    return json.loads(json.dumps(settings))


def stored_delta(delta: Delta, layout: Layout) -> Tensors:
    """A delta as named tensors."""
    mask, new = stored_masks([delta.mask, delta.new])
    pieces = delta.values.split([int(chosen.sum()) for (chosen,) in layout.pieces(delta.new)])
    normaliser = {"shift": delta.normaliser.shift, "scale": delta.normaliser.scale}
    return {
        **under("mask", mask),
        **under("new", new),
        **under("values", stored_weights(pieces)),
        **under("change", stored_change(delta.change, layout)),
        **under("private", delta.private),
        **under("outside", delta.outside),
        **under("normaliser", normaliser),
    }


def read_pack(path: Path) -> Pack:
    """The pack in a file; raises if it is none, or was changed by as little as a bit."""
    if not path.exists():
        raise Mistake(f"there is no file {path}: holdfast agent pack FOLDER NAME --to {path} makes one")
    content = read_bytes(path, LARGEST)
    try:
        tensors = unsealed(content)
        if tensors is None:
            raise Mistake("its hash is another")
        if RECORD not in tensors:
            raise Mistake("it has no record")
        text = tensors.pop(RECORD).numpy().tobytes()
        if len(text) > LARGEST_RECORD:
            raise Mistake(f"its record has {len(text)} bytes, and at most {LARGEST_RECORD} are expected")
        plain = conform(json.loads(text), dict[str, Any], "its record")
        if (format := plain.get("format")) != FORMAT:
            raise Mistake(f"it has format {shown(format)}, and this version of holdfast reads format {FORMAT}")
        record = conform(plain, PackRecord)
        record.interface  # noqa: B018  raises if the notes describe none
    except (Mistake, RecursionError, OverflowError, *UNFIT) as problem:
        raise Mistake(f"{path} is not a pack, or was changed after it was written ({problem}): get it again") from None
    return Pack(path, record, tensors, hashlib.sha256(content).hexdigest(), len(content))
