"""The publication's tables, to stand beside ours."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any


@cache
def tables() -> Mapping[str, Any]:
    """All of them, by suite."""
    return json.loads(Path(__file__).with_name("published.json").read_text(encoding="utf-8"))


def published(suite: str, learner: str) -> Mapping[str, Any] | None:
    """The row of the main table that a learner has, with its returns by task; none where nothing was published."""
    if suite not in tables():
        return None
    if learner == "single":
        return {"method": "single", **tables()[suite]["single_task"]}
    rows = tables()[suite]["main"]
    return next((row for row in rows if row["method"].split()[0] == learner), None)
