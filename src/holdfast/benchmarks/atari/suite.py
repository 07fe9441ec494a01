"""Atari-5: five games from pixels (ale-py)."""

from typing import Any

from holdfast.benchmarks.atari.dataset import build_replays, check_replays
from holdfast.benchmarks.atari.expert_command import EXPERTS
from holdfast.benchmarks.atari.frame_cache import STACK, local_replays
from holdfast.benchmarks.atari.games import FIVE, Game, games
from holdfast.benchmarks.atari.sources import SOURCES
from holdfast.benchmarks.atari.traces import SCREEN
from holdfast.benchmarks.atari.view import view
from holdfast.tasks.data_choice import DataChoice
from holdfast.tasks.interface import Discrete, Interface
from holdfast.tasks.suite import RecordedData, SuiteSpec
from holdfast.tasks.task import Task

VOCABULARY = 18
RATE: dict[str, Any] = {"fit.batch": 64, "fit.learning_rate": 3e-4, "fit.schedule": "constant"}
PAPER: dict[str, Any] = {
    "net.heads": 4,
    **RATE,
    "fit.clip": 1.0,
    "fit.return_scale": 1556.0,
    "subnets.keep": 0.5,
    "ewc:over": "all",
    "si:strength": 1.0,
    "er:memory_bytes": 1_000_000_000,  # an episode of Atlantis takes 190 MB
    "affinity-a:routing.threshold": 10.0,  # published: 10, 12, 14, 16
    "affinity-l:routing.threshold": 35.0,  # published: 35, 45, 55, 75
    "affinity-h:routing.threshold": 0.5,  # published with alpha 0.7 and 0.5, and 0.55 with 0.8
    "affinity-h:routing.action_threshold": 10.0,
    "affinity-h:routing.latent_threshold": 35.0,
}
# A table with a row for each of 27,000 timesteps, private to each task, would take more bytes than all else.
HOLDFAST: dict[str, Any] = {"net.timesteps": "waves"}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "paper": {"protocol.episodes": 1},  # deterministic: all episodes are the same
    "noop": {"protocol.episodes": 20},
    "sticky": {"protocol.episodes": 20},
}
DETERMINISTIC: dict[str, Any] = {"protocol.name": "paper", **PROTOCOLS["paper"]}
# Published: 20,000 steps at a constant 3e-4. With fewer steps at a higher rate, scores can change by about as much
# (0.5 x 1e-3 x 8,000 = 4, against 6), which limits how many entries of a warm-started mask a task can replace.
CONVERGED: dict[str, Any] = {"fit.steps": 8_000, "fit.learning_rate": 1e-3, "fit.schedule": "one-cycle"}
BUDGETS: dict[str, dict[str, Any]] = {
    "smoke": {
        **DETERMINISTIC,
        "transitions": 1_000,
        "fit.steps": 4,
        "fit.batch": 2,
        "net.context": 4,
        "ewc:fisher_batches": 2,
        "affinity-a:routing.windows": 4,
        "affinity-h:routing.windows": 4,
        "fit.return_scale": 10.0,
    },
    "quick": {
        **DETERMINISTIC,
        "transitions": 2_000,
        "fit.steps": 1_500,
        "fit.batch": 16,
        "fit.learning_rate": 1e-3,
        "fit.schedule": "one-cycle",
        "fit.return_scale": 20.0,
        "net.context": 4,
        "net.dropout": 0.0,
    },
    "full": {"data": "expert-100", **CONVERGED, "protocol.name": "noop", **PROTOCOLS["noop"]},
    # Twenty episodes as published, although they are identical; the publication uses Minari's data (`--data minari`).
    "published": {"data": "expert-10", **RATE, "fit.steps": 20_000, "protocol.name": "paper", "protocol.episodes": 20},
}
FORMER_BUDGETS = {"paper": "--preset paper --budget full --protocol.name paper --data expert-10"}


def task(game: Game) -> Task:
    """One game as a task."""
    interface = Interface((STACK, *SCREEN), Discrete(game.actions, VOCABULARY), game.horizon, normalised=False)
    return Task(game.task, interface, game.target, game.load, game.environments, f"ale-py {game.origin}")


def tasks(choice: DataChoice) -> list[Task]:
    """The five games."""
    return [task(game) for game in games(choice.data, choice.transitions).values()]


ATARI5 = SuiteSpec(
    "atari5",
    "Five Atari games from pixels, discrete actions, recorded experts.",
    tuple(game.task for game in FIVE),
    tasks,
    presets={"paper": PAPER, "holdfast": HOLDFAST},
    budgets=BUDGETS,
    protocols=PROTOCOLS,
    former_budgets=FORMER_BUDGETS,
    data=tuple(SOURCES),
    recorded=RecordedData(build_replays, check_replays, local_replays),
    experts=EXPERTS,
    view=view,
)
