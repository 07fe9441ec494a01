"""The publication's tables, to stand beside ours."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
SETTINGS = {"tau": "threshold", "alpha": "alpha"}  # as the publication calls them: as a run's config does
LIKE = {"atari5": {"protocol": ("paper",), "data": (None, "expert-10", "minari"), "transitions": (None,)}}


@cache
def tables() -> Mapping[str, Any]:
    """All of them, by suite."""
    return json.loads(Path(__file__).with_name("published.json").read_text(encoding="utf-8"))


def main_rows(suite: str) -> Sequence[Row]:
    """The main table of a suite, learned alone included; empty where nothing was published."""
    if suite not in tables():
        return []
    return [*tables()[suite]["main"], {"method": "single", **tables()[suite]["single_task"]}]


def published(plan: Mapping[str, Any]) -> Row | None:
    """The row of the main table that a run compares with; none where its data or protocol is not the published one."""
    ran = {**plan, "protocol": plan.get("protocol", {}).get("name")}
    alike = all(ran.get(name) in values for name, values in LIKE.get(plan["suite"], {}).items())
    rows = main_rows(plan["suite"]) if alike else []
    return next((row for row in rows if row["method"].split()[0] == plan["learner"]), None)


def published_at(suite: str, learner: str, routing: Mapping[str, Any]) -> Row | None:
    """The row of any table that a learner has with these routing settings, where the row names any."""
    more = [row for name in ("thresholds", "aux_runs") for row in tables().get(suite, {}).get(name, [])]
    further = [row for row in more if isinstance(row, Mapping)]  # some have no returns by task
    rows = [row for row in [*main_rows(suite), *further] if row["method"].split()[0] == learner]
    return next((row for row in rows if _agrees(row["method"], routing)), None)


def _agrees(method: str, routing: Mapping[str, Any]) -> bool:
    named = [word.split("=") for word in method.split() if "=" in word]
    return all(routing.get(SETTINGS[name]) == float(value) for name, value in named)
