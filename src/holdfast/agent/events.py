"""The log events.jsonl: one line for each event of a run."""

import json
from collections.abc import Iterable
from typing import Any

from holdfast.agent.index import ONLY_PHASE
from holdfast.data.conform import conform
from holdfast.errors import Mistake

Event = dict[str, Any]
LATEST = 1e11  # seconds since 1970: some thousand years from now
EVERY = {"time": float, "kind": str}
KINDS: dict[str, dict[str, Any]] = {  # the fields that each kind must have
    "learn": {"step": int},
    "resume": {"stage": int, "step": int},
    "train": {"stage": int, "task": str, "step": int, "loss": float},
    "evaluate": {"stage": int, "task": str, "mean": float},
    "score": {"stage": int, "task": str, "score": dict[str, float]},
    "play": {"task": str, "mean": float},
    "install": {"stage": int, "task": str, "sha256": str},
    "remove": {"stage": int},
    "keep": {"stage": int, "task": str},
    "rollback": {"stage": int},
    "curve": {"stage": int, "task": str, "at": int, "step": int, "success": float},
}
DROPPING = ("install", "keep", "remove", "rollback")  # after which the task that was being learned is gone
OPTIONAL = {"phase": str, "phases": dict[str, int]}  # which events of version 0.1 do not have


def parsed(lines: Iterable[bytes]) -> list[Event]:
    """The events in these lines; skips a line that was cut off, and raises if one is not an event."""
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        check(event, f"line {number}")
        found.append(event)
    return found


def check(event: Any, where: str) -> None:
    """Raises unless this is an event."""
    conform(event, dict[str, Any], where)
    kind = event.get("kind")
    needed = EVERY | KINDS.get(kind if isinstance(kind, str) else "", {})
    for name, wanted in needed.items():
        if name not in event:
            raise Mistake(f"{where} has no {name}")
        conform(event[name], wanted, f"{where}: {name}")
        if wanted is int and event[name] < 0:
            raise Mistake(f"{where}: {name} must be at least 0, got {event[name]}")
    for name, wanted in OPTIONAL.items():
        if name in event:
            conform(event[name], wanted, f"{where}: {name}")
    if not 0 <= event["time"] < LATEST:
        raise Mistake(f"{where}: time must be in seconds since 1970, got {event['time']}")


def without_undone(events: Iterable[Event]) -> list[Event]:
    """The events without those that a resumed run repeats, since it continues from an earlier step, and without those
    of an unfinished task that another change of an agent dropped. Events of an agent have as stage the number of the
    state that they began from, which no other change has."""
    kept: list[Event] = []
    for event in events:
        if event["kind"] == "resume":
            kept = [old for old in kept if not _undone(old, event)]
        elif event["kind"] in DROPPING:
            kept = [old for old in kept if old.get("stage") != event["stage"]]
        kept.append(event)
    return kept


def training_seconds(events: Iterable[Event]) -> dict[str, float]:
    """By task, the time that its training took, without evaluations; a task that was read from the cache has none."""
    seconds: dict[str, float] = {}
    recalled, before = set(), 0.0
    for event in events:
        task = str(event.get("task"))
        if event["kind"] == "learn":
            seconds.pop(task, None)  # a task of this name may have been removed
        if event["kind"] == "train":
            seconds[task] = seconds.get(task, 0.0) + event["time"] - before
        if event["kind"] == "recall":
            recalled.add(task)
        before = event["time"]
    return {task: value for task, value in seconds.items() if task not in recalled}


def _undone(event: Event, resume: Event) -> bool:
    saved = resume.get("phases", {ONLY_PHASE: resume["step"]})  # steps by phase
    if event["kind"] == "curve":  # a point that was measured is not measured again
        return False
    kept = event["kind"] in ("train", "learn") and event["step"] <= saved.get(event.get("phase", ONLY_PHASE), 0)
    return event.get("stage") == resume["stage"] and not kept
