"""The publication's tables, to stand beside ours."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]  # method, run where there are several, and numbers by the name of their column
SWEEP = "best sweep"  # by task, the best return of several targets, where the publication has it
SETTINGS = {"tau": "threshold", "alpha": "alpha"}  # as the publication calls them: as a run's config does
LIKE = {"atari5": {"protocol": ("paper",), "data": (None, "expert-10", "minari"), "transitions": (None,)}}
REPLAY = {"tsn-replaykl:routing.threshold": 0.25}
CONDITIONS: Mapping[str, Mapping[str, Any]] = {  # under which the published runs were made, as a plan would say it
    "atari5": {
        "protocol.name": "paper",
        "data": "minari",
        "transitions": None,
        "fit.steps": 20_000,
        "fit.learning_rate": 3e-4,
        "fit.schedule": "constant",
        "fit.return_scale": 1556.0,
    },
    "panda3": {
        "protocol.episodes": 20,
        "data": "TQC with hindsight replay",
        "transitions": 1_000_000,
        "fit.steps": 1_000_000,
    },
}
CHOSEN: Mapping[str, Mapping[str, Any]] = {  # settings of the published learners that runs here may have otherwise
    "atari5": {"ewc:strength": 50.0, "si:strength": 1.0, **REPLAY, "subnets.outside": "frozen"},
    "panda3": {"ewc:strength": 50.0, "si:strength": 0.5, **REPLAY, "subnets.outside": "shared"},  # which is the leak
}


@cache
def tables() -> Mapping[str, Any]:
    """All of them, by suite."""
    return json.loads(Path(__file__).with_name("published.json").read_text(encoding="utf-8"))


def main_rows(suite: str) -> list[Row]:
    """The main table of a suite; empty where nothing was published."""
    return list(tables().get(suite, {}).get("main", []))


def single_rows(suite: str) -> list[Row]:
    """What tasks learned alone reached."""
    found = tables().get(suite, {})
    if "single_task" not in found:
        return []
    sweep = {SWEEP: found["single_task_best_sweep"]} if "single_task_best_sweep" in found else {}
    return [{"method": "single", **found["single_task"], **sweep}]


def threshold_rows(suite: str) -> list[Row]:
    """The grid of thresholds; Panda's is part of its auxiliary runs, and of several of one setting the first counts."""
    grid = tables().get(suite, {}).get("thresholds")
    if grid is not None:
        return list(grid)
    first = {row["method"]: row for row in reversed(auxiliary_rows(suite)) if "tau" in row["method"]}
    return [{name: value for name, value in row.items() if name != "run"} for row in reversed(first.values())]


def auxiliary_rows(suite: str) -> list[Row]:
    """Runs one by one; `run` counts from 0."""
    return [_auxiliary(row) for row in tables().get(suite, {}).get("aux_runs", [])]


def _auxiliary(row: Any) -> Row:
    if isinstance(row, Mapping):  # Panda: "tsn-replaykl r1", counted from 1
        method, _, number = row["method"].rpartition(" r")
        return {**row, "method": method, "run": int(number) - 1}
    method, number, share, forgotten = row  # Atari: s0, counted from 0
    return {"method": method, "run": int(number.removeprefix("s")), "NormAvg": share, "AvgF": forgotten}


def all_rows(suite: str) -> list[Row]:
    """Of every table, the main one first; single runs are of no other settings."""
    tables_of = (main_rows, single_rows, threshold_rows)
    return [row for rows in tables_of for row in rows(suite)]


def matching(rows: Sequence[Row], learner: str, routing: Mapping[str, Any]) -> Row | None:
    """The first row of a learner whose settings, where it names any, are these."""
    own = (row for row in rows if row["method"].split()[0] == learner)
    return next((row for row in own if _agrees(row["method"], routing)), None)


def _agrees(method: str, routing: Mapping[str, Any]) -> bool:
    named = [word.split("=") for word in method.split() if "=" in word]
    return all(routing.get(SETTINGS[name]) == float(value) for name, value in named)


def published(plan: Mapping[str, Any]) -> Row | None:
    """The row that a run compares with; none where its data, protocol, tasks, threshold or strength are others."""
    suite, ran = plan["suite"], {**plan, "protocol": plan.get("protocol", {}).get("name")}
    alike = all(ran.get(name) in values for name, values in LIKE.get(suite, {}).items())
    config, strength = plan.get("config", {}), CHOSEN.get(suite, {}).get(f"{plan['learner']}:strength")
    if not alike or _other_order(suite, plan) or config.get("strength", strength) != strength:
        return None
    return matching(all_rows(suite), plan["learner"], config.get("routing", {}))


def differences(suite: str, learner: str, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """In what runs with these flat settings differ from the published: in data, budget, protocol, or the learner."""
    return tuple(_differences(suite, learner, settings))


def _differences(suite: str, learner: str, settings: Mapping[str, Any]) -> Iterator[str]:
    chosen = {name.removeprefix(f"{learner}:"): value for name, value in CHOSEN.get(suite, {}).items()}
    own = {name: value for name, value in chosen.items() if name in settings}  # those of other learners are in none
    for name, value in {**CONDITIONS.get(suite, {}), **own}.items():
        if settings.get(name) != value:
            yield f"{name} {_said(name, settings.get(name))} (published: {_said(name, value)})"
    if _other_order(suite, settings):
        yield f"tasks {', '.join(settings['order'])} (published: {', '.join(tables()[suite]['order'])})"


def _other_order(suite: str, settings: Mapping[str, Any]) -> bool:
    known = tables().get(suite, {}).get("order")
    return known is not None and list(settings.get("order", known)) != known


def _said(name: str, value: Any) -> str:
    if value is None:
        return "all" if name == "transitions" else "the suite's own"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
