"""The lines of the table of routes: where each task went, and how far the nearest learned task was, over all seeds."""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.agent.routes import distance, far, nearest, sources
from holdfast.runs.folder import RunFolder
from holdfast.study.groups import Group
from holdfast.study.table_lines import SEEDS, TASK, TableEntry, TableLine, seeds_text

NEAREST, DISTANCE, ALLOWED, DECISION = "nearest task", "distance", "allowed", "decision"
ROUTED = (
    "distance: that of the nearest learned task, from the smallest to the largest over seeds; a task is near up to the "
    "distance that is allowed. An automatic threshold measures each distance by a scale of its own, and allows 1."
)

Routes = Mapping[int, Mapping[str, Any]]  # the recorded route of one task, by seed


def route_lines(entry: TableEntry) -> list[TableLine]:
    """A line for each task that was compared with learned ones; one line if no comparison is recorded."""
    if entry.group is None:
        return []
    routes = {result.plan["seed"]: RunFolder(result.folder).read_routes() for result in entry.group.results}
    tasks = list(dict.fromkeys(route["task"] for run in routes.values() for route in run))
    lines = []
    for task in tasks:
        found = {seed: route for seed, run in routes.items() for route in run if route["task"] == task}
        if any(route["candidates"] for route in found.values()):
            lines.append(entry.line({SEEDS: seeds_text(entry), TASK: task, **_values(found)}, {}))
    return lines or [entry.line({SEEDS: seeds_text(entry), TASK: "no comparison is recorded"}, {})]


def is_routed(group: Group) -> bool:
    """Whether the learner of a group compares tasks."""
    return bool(group.routing)


def _values(routes: Routes) -> dict[str, str]:
    compared = {seed: found for seed, route in routes.items() if (found := nearest(route))}
    distances = sorted(distance(found) for found in compared.values())
    allowed = sorted({route["threshold"] for route in routes.values() if route["threshold"] is not None})
    return {
        NEAREST: _by_seed({seed: found["task"] for seed, found in compared.items()}),
        DISTANCE: " to ".join(dict.fromkeys(far(found) for found in (distances[0], distances[-1]))),
        ALLOWED: ", ".join(map(far, allowed)),
        DECISION: _by_seed({seed: _decision(route) for seed, route in routes.items()}),
    }


def _decision(route: Mapping[str, Any]) -> str:
    if route["opened"]:
        return f"a copy of its own{f', from {begun}' if (begun := route['source']) else ''}"
    return f"copy {route['copy']}, from {' and '.join(sources(route)) or 'new scores'}"


def _by_seed(said: Mapping[int, str]) -> str:
    """What is said of all seeds, or of each group of seeds that agree."""
    seeds: dict[str, list[int]] = {}
    for seed, words in said.items():
        seeds.setdefault(words, []).append(seed)
    if len(seeds) == 1:
        return next(iter(seeds))
    return "; ".join(f"{words} ({_numbers(which)})" for words, which in seeds.items())


def _numbers(seeds: Sequence[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
