"""The publication's tables."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from holdfast.study.published_settings import published_settings, setting_differences, target_differences

PublishedRow = Mapping[str, Any]  # method, run where there are several, and numbers by the name of their column
SWEEP = "best sweep"  # by task, the best return of several targets, where the publication has it
NO_TARGETS: Mapping[str, float] = MappingProxyType({})
SETTINGS = {"tau": "threshold", "alpha": "alpha"}  # as the publication calls them: as a run's config does
LIKE = {"atari5": {"protocol": ("paper",), "data": (None, "expert-10", "minari"), "transitions": (None,)}}


@cache
def published_tables() -> Mapping[str, Any]:
    """All published tables, by suite."""
    return json.loads(Path(__file__).with_name("published.json").read_text(encoding="utf-8"))


def main_rows(suite: str) -> list[PublishedRow]:
    """The main table of a suite; empty where nothing was published."""
    return list(published_tables().get(suite, {}).get("main", []))


def single_rows(suite: str) -> list[PublishedRow]:
    """The results of tasks learned alone."""
    found = published_tables().get(suite, {})
    if "single_task" not in found:
        return []
    sweep = {SWEEP: found["single_task_best_sweep"]} if "single_task_best_sweep" in found else {}
    return [{"method": "single", **found["single_task"], **sweep}]


def threshold_rows(suite: str) -> list[PublishedRow]:
    """The grid of thresholds; for Panda, the first auxiliary run of each setting."""
    grid = published_tables().get(suite, {}).get("thresholds")
    if grid is not None:
        return list(grid)
    first = {row["method"]: row for row in reversed(auxiliary_rows(suite)) if "tau" in row["method"]}
    return [{name: value for name, value in row.items() if name != "run"} for row in reversed(first.values())]


def auxiliary_rows(suite: str) -> list[PublishedRow]:
    """Runs one by one; `run` counts from 0."""
    return [_auxiliary(row) for row in published_tables().get(suite, {}).get("aux_runs", [])]


def _auxiliary(row: Any) -> PublishedRow:
    if isinstance(row, Mapping):  # Panda: "tsn-replaykl r1", counted from 1
        method, _, number = row["method"].rpartition(" r")
        return {**row, "method": method, "run": int(number) - 1}
    method, number, share, forgotten = row  # Atari: s0, counted from 0
    return {"method": method, "run": int(number.removeprefix("s")), "NormAvg": share, "AvgF": forgotten}


def all_rows(suite: str) -> list[PublishedRow]:
    """The rows of every table, the main one first; auxiliary runs add no settings."""
    tables_of = (main_rows, single_rows, threshold_rows)
    return [row for rows in tables_of for row in rows(suite)]


def matching_row(rows: Sequence[PublishedRow], learner: str, routing: Mapping[str, Any]) -> PublishedRow | None:
    """The first row of a learner whose named settings equal these."""
    own = (row for row in rows if row["method"].split()[0] == learner)
    return next((row for row in own if _agrees(row["method"], routing)), None)


def _agrees(method: str, routing: Mapping[str, Any]) -> bool:
    named = [word.split("=") for word in method.split() if "=" in word]
    return all(routing.get(SETTINGS[name]) == float(value) for name, value in named)


def published_row(plan: Mapping[str, Any]) -> PublishedRow | None:
    """The row that a run compares with; None if its data, protocol, tasks, threshold or strength differ."""
    suite, ran = plan["suite"], {**plan, "protocol": plan.get("protocol", {}).get("name")}
    alike = all(ran.get(name) in values for name, values in LIKE.get(suite, {}).items())
    config, strength = plan.get("config", {}), published_settings(suite, plan["learner"]).get("strength")
    if not alike or _other_order(suite, plan) or config.get("strength", strength) != strength:
        return None
    return matching_row(all_rows(suite), plan["learner"], config.get("routing", {}))


def differences(
    suite: str, learner: str, settings: Mapping[str, Any], targets: Mapping[str, float] = NO_TARGETS
) -> tuple[str, ...]:
    """Every way in which runs with these flat settings, and these target returns by task, differ from the published."""
    known = published_tables().get(suite, {}).get("targets", {})
    found = [*setting_differences(suite, learner, settings), *target_differences(known, targets)]
    if _other_order(suite, settings):
        found.append(
            f"tasks {', '.join(settings['order'])} (published: {', '.join(published_tables()[suite]['order'])})"
        )
    return tuple(found)


def _other_order(suite: str, settings: Mapping[str, Any]) -> bool:
    known = published_tables().get(suite, {}).get("order")
    return known is not None and list(settings.get("order", known)) != known
