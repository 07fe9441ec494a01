"""Checks of a user's data before it is learned: what each result means, and what to do."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from holdfast.data.action_layouts import ScaledActions
from holdfast.data.raw_episodes import RawEpisodes, mapped
from holdfast.errors import Mistake

Level = Literal["ok", "note", "warning", "problem"]
NOTHING = "Nothing needs to be done."
AT_BOUNDS = 1e-3  # of a dimension's range: so near to a bound counts as at it
MANY_AT_BOUNDS = 0.5
BINS = 20  # of a histogram
BLOCK = 1_000  # rows
LISTED = 5  # episodes or columns that a sentence names


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    name: str
    level: Level
    means: str
    """One sentence: what was found and what that means."""
    advice: str = NOTHING
    """One sentence: what to do."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """Plain numbers for a picture: counts, shares, and histograms as `counts` and `edges`."""


def examine(raw: RawEpisodes, env: Any = None) -> list[Finding]:
    """All checks of the data itself; `env` is a Gymnasium environment whose spaces are used instead of the data's."""
    finite = not_finite(raw)
    learnable = [finite] if finite.level == "problem" else [finite, spaces_fit(raw, env)]
    return [
        *learnable,
        constant_dimensions(raw),
        actions_at_bounds(raw, env),
        duplicate_episodes(raw),
        lengths(raw),
        *returns(raw),
    ]


def not_finite(raw: RawEpisodes) -> Finding:
    """NaN and infinities."""
    name = "NaN and infinities"
    counts = {
        place: int((~np.isfinite(array)).sum())
        for place, array in raw.numbers()
        if array.dtype.kind == "f" and not np.isfinite(array).all()
    }
    if not counts:
        return Finding(name, "ok", "All numbers are finite.")
    try:
        raw.check_finite()
    except Mistake as mistake:
        first = str(mistake).partition(": ")[0]
    total = sum(counts.values())
    count = "1 number is" if total == 1 else f"{total:,} numbers are"
    means = f"{count} NaN or infinite, so the data cannot be learned: {first}."
    return Finding(name, "problem", means, "Repair these steps or leave out their episodes.", {"count": counts})


def spaces_fit(raw: RawEpisodes, env: Any = None) -> Finding:
    """Whether the spaces can be learned, and how they are mapped."""
    name, notes = "spaces", list(raw.notes)
    try:
        layout = raw.layout(notes, env)
        layout.encode_observations(_rows(raw.observations, slice(0, 1)))
        layout.encode_actions(raw.actions)
    except Mistake as mistake:
        return Finding(name, "problem", f"The data cannot be learned: {mistake}.", "Change the data as this says.")
    shape = " x ".join(map(str, layout.observation))
    means = f"Observations become {shape} numbers, and actions are {layout.actions.KIND}."
    if notes:
        return Finding(name, "note", f"{means} {' '.join(notes)}", "Check that this is what you want.")
    return Finding(name, "ok", means)


def constant_dimensions(raw: RawEpisodes) -> Finding:
    """Columns of observations and actions that never change."""
    name, constant, total = "constant dimensions", [], 0
    for place, array in raw.numbers():
        if place == "rewards":
            continue
        columns = array.reshape(len(array), -1)
        same = _never_change(columns)
        total += len(same)
        constant += [f"{place}[{index}]" for index in np.flatnonzero(same)]
    numbers = {"constant": len(constant), "columns": total}
    if not constant:
        return Finding(name, "ok", f"All {total:,} columns vary.", numbers=numbers)
    means = f"{len(constant):,} of {total:,} columns never change, so nothing can be learned from them: "
    level: Level = "warning" if len(constant) == total else "note"
    advice = "Check that these sensors were recorded; padding and fixed joints are harmless."
    return Finding(name, level, f"{means}{_listed(constant)}.", advice, numbers)


def _never_change(columns: np.ndarray) -> np.ndarray:
    """Which columns have one value in all rows; blocks of rows keep the memory small where there are many pixels."""
    same = np.ones(columns.shape[1], bool)
    for start in range(0, len(columns), BLOCK):
        same &= (columns[start : start + BLOCK] == columns[0]).all(axis=0)
        if not same.any():
            break
    return same


def actions_at_bounds(raw: RawEpisodes, env: Any = None) -> Finding:
    """The share of continuous actions at their bounds, or of the most frequent discrete action."""
    name = "actions"
    try:
        layout = raw.layout([], env).actions
        actions = layout.encode(raw.actions)
    except Mistake:
        return Finding(name, "problem", "The actions cannot be read, as other checks say.", "See the other checks.")
    if not isinstance(layout, ScaledActions):
        return _most_frequent(actions)
    varying = layout.half > 0
    at = (np.abs(actions) >= 1 - AT_BOUNDS)[:, varying]
    shares = at.mean(axis=0) if len(at) else np.zeros(0)
    share = float(at.any(axis=1).mean()) if varying.any() else 0.0
    numbers = {"share": share, "by_dimension": shares.tolist()}
    means = f"{share:.1%} of the actions are at a bound in at least one dimension"
    if share < MANY_AT_BOUNDS:
        return Finding(name, "ok", f"{means}.", numbers=numbers)
    means = f"{means}: the behaviour switches between extremes, or the bounds are narrower than the actions were."
    return Finding(name, "warning", means, "Compare the bounds with the environment's action space.", numbers)


def _most_frequent(actions: np.ndarray) -> Finding:
    values, counts = np.unique(actions, return_counts=True)
    share = float(counts.max() / counts.sum())
    numbers = {"share": share, "counts": counts.tolist(), "values": values.tolist()}
    if len(values) == 1:
        means = "All actions are the same, so a constant policy is as good as a learned one."
        return Finding("actions", "warning", means, "Check that the actions were recorded.", numbers)
    return Finding(
        "actions", "ok", f"{len(values)} different actions; the most frequent is {share:.1%}.", numbers=numbers
    )


def duplicate_episodes(raw: RawEpisodes) -> Finding:
    """Episodes that are there more than once."""
    name = "duplicate episodes"
    seen: dict[bytes, int] = {}
    duplicates = []
    for number, (start, length) in enumerate(zip(raw.starts.tolist(), raw.lengths.tolist(), strict=True)):
        digest = hashlib.sha256()
        for _, array in raw.numbers():
            digest.update(np.ascontiguousarray(array[start : start + length]).data)
        first = seen.setdefault(digest.digest(), number)
        if first != number:
            duplicates.append(f"{number} is {first}")
    numbers = {"duplicates": len(duplicates), "episodes": len(raw)}
    if not duplicates:
        return Finding(name, "ok", f"All {len(raw):,} episodes differ.", numbers=numbers)
    means = (
        f"{len(duplicates):,} of {len(raw):,} episodes are copies of others ({_listed(duplicates)}): they count "
        "double, and a held-out episode may also be trained on."
    )
    return Finding(name, "warning", means, "Keep one of each.", numbers)


def lengths(raw: RawEpisodes) -> Finding:
    """The number of steps of the episodes."""
    name, numbers = "lengths", histogram_of(raw.lengths)
    shortest, median, longest = int(raw.lengths.min()), float(np.median(raw.lengths)), int(raw.lengths.max())
    means = f"{len(raw):,} episodes of {shortest:,} to {longest:,} steps, median {median:g}."
    if len(raw) == 1:
        advice = "Record more episodes, or mark where they end."
        return Finding(name, "warning", f"{means} With one episode, none can be held out.", advice, numbers)
    if shortest == 1:
        single = int((raw.lengths == 1).sum())
        advice = "Check that the ends of episodes are marked at the right steps."
        return Finding(name, "note", f"{means} {single:,} episodes have a single step.", advice, numbers)
    return Finding(name, "ok", means, numbers=numbers)


def returns(raw: RawEpisodes) -> list[Finding]:
    """Missing rewards, or the returns of the episodes."""
    name = "returns"
    if raw.rewards is None:
        means = "There are no rewards: the task is cloned, without a return to ask for."
        return [Finding("rewards", "note", means, "Add rewards if some episodes are better than others.")]
    totals = raw.returns
    if not np.isfinite(totals).all():
        means = "The returns cannot be computed, since rewards are not finite."
        return [Finding(name, "problem", means, "Repair the rewards first.")]
    least, middle, most = totals.min(), np.median(totals), totals.max()
    means = f"Returns lie between {least:.6g} and {most:.6g}, median {middle:.6g}."
    if not raw.rewards.any():
        means = "All rewards are zero: the task is cloned, and no return can be asked for."
        return [Finding(name, "note", means, "Check that the rewards were recorded.", histogram_of(totals))]
    if least == most and len(raw) > 1:
        means = f"{means} All are the same, so asking for more or less return changes nothing."
        return [Finding(name, "note", means, numbers=histogram_of(totals))]
    return [Finding(name, "ok", means, numbers=histogram_of(totals))]


def histogram_of(values: np.ndarray) -> dict[str, Any]:
    """The number of values in each of some ranges, and the ends of these."""
    values = values.astype(np.float64)
    with np.errstate(over="ignore"):
        spread = values.max() - values.min()
    near = not np.isfinite(spread) or spread < 1e-9 * max(abs(values.max()), abs(values.min()))
    if near:  # too narrow or too wide to be divided into bins
        counts, edges = np.array([len(values)]), np.array([values.min(), values.max()])
    else:
        counts, edges = np.histogram(values, BINS)
    return {"counts": counts.tolist(), "edges": edges.tolist()}


def _listed(entries: list[str]) -> str:
    more = f" and {len(entries) - LISTED:,} more" if len(entries) > LISTED else ""
    return f"{', '.join(entries[:LISTED])}{more}"


def _rows(tree: Any, rows: slice) -> Any:
    return mapped(lambda array: array[rows], tree)
