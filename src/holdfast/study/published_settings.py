"""The settings behind the published tables, and how a run differs from them."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from holdfast.tasks.suite import Settings

BOTH: Settings = MappingProxyType(
    {
        "protocol.episodes": 20,
        "demonstrations": None,
        "target": [],
        "backbone": "dt",
        "net.width": 128,
        "net.layers": 3,
        "net.context": 20,
        "net.dropout": 0.1,
        "net.timesteps": "table",
        "fit.schedule": "constant",
        "fit.weight_decay": 1e-4,
        "fit.whole": True,
        "subnets.schedule": "constant",
        "subnets.new": None,
        "subnets.place": "scores",
        "subnets.private": 0.0,
        "subnets.biases": "masked",
        "subnets.reuse": True,
        "subnets.exclude": ["timestep"],
        "subnets.warm_start": 2.0,
        "subnets.sources": 1,
        "subnets.far_source": "nearest",
        "subnets.new_copy": "fresh",
        "subnets.noise": 0.02,
        "subnets.quantise_bits": 0,
        "routing.memory": 256,
        "routing.max_copies": None,
        "routing.batches": 4,
        "routing.windows": 64,
        "tsn-replaykl:routing.threshold": 0.25,
        "ewc:strength": 50.0,
        "ewc:fisher_batches": 50,
        "si:damping": 0.1,
        "cumulative:mix": 0.5,
        "task_id": False,
    }
)
PUBLISHED: Mapping[str, Settings] = {  # by suite
    "atari5": {
        "protocol.name": "paper",
        "data": "minari",
        "transitions": None,
        **BOTH,
        "net.heads": 4,
        "fit.steps": 20_000,
        "fit.batch": 64,
        "fit.learning_rate": 3e-4,
        "fit.clip": 1.0,
        "fit.sampling": "episodes",
        "fit.return_scale": 1556.0,
        "treatment": "equal",
        "subnets.keep": 0.5,
        "subnets.outside": "frozen",
        "affinity-h:routing.action_threshold": 10.0,
        "affinity-h:routing.latent_threshold": 35.0,
        "ewc:over": "all",
        "si:strength": 1.0,
        "cumulative:capacity": None,
    },
    "panda3": {
        "data": "TQC with hindsight replay",
        "transitions": 1_000_000,
        **BOTH,
        "net.heads": 1,
        "fit.steps": 1_000_000,
        "fit.batch": 128,
        "fit.learning_rate": 1e-4,
        "fit.clip": 0.25,
        "fit.sampling": "windows",
        "fit.return_scale": 1000.0,
        "treatment": "paper",
        "subnets.keep": 0.33,
        "subnets.outside": "shared",  # which is the leak
        "affinity-h:routing.action_threshold": 0.45,
        "affinity-h:routing.latent_threshold": 25.0,
        "ewc:over": "last",
        "si:strength": 0.5,
        "cumulative:capacity": 5_000,
    },
}
BESIDE_SETTINGS = {  # a difference that every run has, whatever its settings
    ("panda3", "tsn-core"): "frozen weights stay as they are (published: the optimiser goes on moving them)",
}
UNCOMPARED = {  # settings in which a run cannot differ from the publication, and why
    "routing.threshold": "a published row is beside the runs of its threshold",
    "routing.alpha": "a published row is beside the runs of its alpha",
    "protocol.name": "on Panda only a name: what it means are the number and the starts of episodes",
    "protocol.first_seed": "the published starts are not known",
    "protocol.lanes": "how many episodes are stepped together changes none of them",
    "fit.packed": "the loss is the same",
    "fit.precision": "the published precision is not known",
    "fit.captured": "the steps are the same",
    "fit.log_every": "what is logged changes nothing",
    "subnets.tasks": "only another schedule asks for it",
    "tasks": "only task_id asks for it",
    "order": "compared as tasks",
    "preset": "a name for settings, each of which is compared",
    "budget": "a name for settings, each of which is compared",
}


def published_settings(suite: str, learner: str) -> dict[str, Any]:
    """The published settings for a learner on a suite; may include settings that only other learners have."""
    found = PUBLISHED.get(suite, {})
    general = {name: value for name, value in found.items() if ":" not in name}
    prefix = f"{learner}:"
    return general | {name.removeprefix(prefix): value for name, value in found.items() if name.startswith(prefix)}


def setting_differences(suite: str, learner: str, settings: Settings) -> Iterator[str]:
    """Each recorded setting that differs from the published one, and differences that no setting expresses."""
    for name, value in published_settings(suite, learner).items():
        if name in settings and settings[name] != value:
            yield f"{name} {_said(name, settings[name])} (published: {_said(name, value)})"
    if (suite, learner) in BESIDE_SETTINGS:
        yield BESIDE_SETTINGS[suite, learner]


def target_differences(known: Mapping[str, float], own: Mapping[str, float]) -> Iterator[str]:
    """A sentence if the target returns differ from the published ones."""
    tasks = [task for task in own if task in known]
    if any(own[task] != known[task] for task in tasks):
        yield f"target returns {_numbers(own, tasks)} (published: {_numbers(known, tasks)})"


def _numbers(values: Mapping[str, float], tasks: Sequence[str]) -> str:
    return ", ".join(f"{values[task]:g}" for task in tasks)


def _said(name: str, value: Any) -> str:
    if value is None and name in ("transitions", "demonstrations", "capacity"):
        return "all"
    if value is None and name == "routing.max_copies":
        return "any number"
    if value is None or (name == "target" and not value):
        return "the suite's own"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
