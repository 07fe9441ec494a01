"""Cache keys: a hash of everything that decides the result of a fit or of an evaluation, part by part."""

import hashlib
import json
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.data.windows import Sampler
from holdfast.gpu.capture import TRITON
from holdfast.registry import PLUGINS, installed_packages
from holdfast.training.config import FitConfig
from holdfast.training.ranks import ranks
from holdfast.training.step import Addition

FIT_CODE = ("gpu", "data", "tasks", "nets", "subnets", "training", "learners")  # our folders that decide a fit


def key_of(parts: Mapping[str, Any]) -> str:
    """The hash of these parts, which must be plain data."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def fit_key(
    model: nn.Module,
    windows: Sampler,
    config: FitConfig,
    *,
    seed: int,
    phase: str,
    addition: Addition | None,
) -> str | None:
    """The key of a fit, or none if the fit must not be cached.

    That is the case if the model has no `describe`, or if the code of the model or of the addition is not hashed here:
    a class from a script or a notebook may change without anything in the key changing.
    """
    described = model_parts(model)
    if described is None or (addition and not code_is_hashed([type(addition)])):
        return None
    return key_of(
        {
            **described,
            "addition": addition and [class_name(type(addition)), addition.describe()],
            "addition tensors": addition and tensors_hash(addition.given()),
            "data": windows.fingerprint,
            "config": asdict(config),
            "seed": seed,
            "phase": phase,
            **environment_parts(next(model.parameters()).device, FIT_CODE),
        }
    )


def model_parts(model: nn.Module) -> dict[str, Any] | None:
    """The parts of a key about a model: its settings, module classes and tensors; None if it has no `describe`."""
    describe = getattr(model, "describe", None)
    if describe is None or not code_is_hashed(type(module) for module in model.modules()):
        return None
    return {
        "model": describe(),
        "modules": {name: class_name(type(module)) for name, module in model.named_modules()},
        "tensors": tensors_hash({**dict(model.named_parameters()), **dict(model.named_buffers())}),
    }


def environment_parts(device: torch.device, folders: Iterable[str]) -> dict[str, Any]:
    """The parts of a key about the code and the machine."""
    return {"code": our_code(*folders), "plugins": plugin_code(), "machine": machine(device)}


def tensors_hash(tensors: Mapping[str, Tensor]) -> str:
    """A hash of named tensors in order: names, types, shapes, whether they are trained, and every bit of them.

    The order counts, since sums over parameters (the gradient's norm) depend on it.
    """
    digest = hashlib.sha256()
    for name, tensor in tensors.items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} {tensor.requires_grad};".encode())
        if tensor.numel():
            digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def class_name(kind: type) -> str:
    """The module and the name of a class."""
    return f"{kind.__module__}.{kind.__qualname__}"


def code_is_hashed(definitions: Iterable[type | Callable[..., Any]]) -> bool:
    """Whether a key covers the code of these classes and functions: ours, torch's, a plugin's, a package's."""
    plugins = {plugin.module for plugin in PLUGINS}
    known = {"holdfast", "torch", *plugins, *installed_packages()}
    return all(
        definition.__module__.partition(".")[0] in known
        and "<" not in definition.__qualname__  # defined inside a function
        for definition in definitions
    )


@cache
def our_code(*folders: str) -> str:
    """A hash of our source in these folders."""
    root = Path(__file__).parents[1]
    return source_hash(root, [root / folder for folder in folders])


def plugin_code() -> list[str]:
    """Hashes of the loaded plugin files, and of the installed packages that add suites, learners or backbones."""
    return sorted([plugin.sha256 for plugin in PLUGINS] + [_package_code(name) for name in installed_packages()])


@cache
def _package_code(name: str) -> str:
    """A hash of an installed package's source; its version alone would not tell an editable install's changes."""
    spec = find_spec(name)
    place = Path(spec.origin) if spec and spec.origin else None
    if place is None:
        return name
    if place.name != "__init__.py":
        return source_hash(place.parent, [place])
    return source_hash(place.parent, [place.parent])


def source_hash(root: Path, places: Iterable[Path]) -> str:
    """A hash of Python files, and of those in folders, with their paths below the root."""
    digest = hashlib.sha256()
    for path in sorted(path for place in places for path in ([place] if place.is_file() else place.rglob("*.py"))):
        digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def machine(device: torch.device) -> dict[str, Any]:
    """What decides how sums are rounded on this machine."""
    gpu = {"name": torch.cuda.get_device_name(device), "cuda": torch.version.cuda} if device.type == "cuda" else {}
    cudnn = torch.backends.cudnn
    return {
        "device": device.type,
        "versions": [torch.__version__, np.__version__, TRITON],
        "processor": [_processor(), torch.backends.cpu.get_cpu_capability()],
        "gpu": gpu,
        "threads": torch.get_num_threads(),
        "processes": ranks().size,
        "products": [torch.get_float32_matmul_precision(), cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32],
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "dtype": str(torch.get_default_dtype()),
    }


@cache
def _processor() -> str:
    """The processor's name: another one may sum in another order."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), platform.processor()) + platform.machine()
