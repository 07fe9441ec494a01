"""Builds Atari datasets by replaying recorded episodes, and checks them by replaying again."""

from dataclasses import replace
from functools import partial

import numpy as np

from holdfast.benchmarks.atari.games import HORIZON, Game, games
from holdfast.benchmarks.atari.replay import replay
from holdfast.benchmarks.atari.sources import SOURCES
from holdfast.errors import Mistake
from holdfast.tasks.data_reports import DataCheck, Report
from holdfast.tasks.suite import Suite


def games_of(suite: Suite) -> list[Game]:
    """The games of the suite's tasks, with its data."""
    by_task = games(suite.choice.data, suite.choice.transitions)
    return [by_task[name] for name in suite.names]


def build_replays(suite: Suite, report: Report, again: bool) -> list[str]:
    """Replays the recordings whose frames are not on this machine yet, or with `again` all of them."""
    return [build_game(game, report, again) for game in games_of(suite)]


def build_game(game: Game, report: Report, again: bool) -> str:
    """Replays one game's recording, after importing it if necessary; returns the name of the data."""
    SOURCES[game.data].fetch(replace(game.origin, horizon=HORIZON))
    frames = game.frames
    if frames.exists() and not again:
        frames.read()  # raises if it is damaged
    else:
        steps = sum(len(trace) for trace in frames.recording.traces)
        frames.build(partial(_report_steps, report, game.task, steps), again)
        report(game.task, steps, steps)
    return frames.name


def _report_steps(report: Report, task: str, total: int, done: int) -> None:
    report(task, done, total)


def check_replays(suite: Suite, replays: int) -> list[DataCheck]:
    """Replays some episodes of every game and compares them with the data."""
    return [check_game(game, replays) for game in games_of(suite)]


def check_game(game: Game, replays: int) -> DataCheck:
    """Checks one game; the replay raises if the emulator differs from the recording."""
    dataset, recording = game.load(), game.frames.recording
    chosen = np.linspace(0, len(dataset) - 1, min(replays, len(dataset))).astype(int)
    for replayed in replay(replace(recording, traces=[recording.traces[i] for i in chosen])):
        episode = dataset.episode(chosen[replayed.episode])
        same = np.array_equal(episode.observations, replayed.frames) and (episode.rewards == replayed.rewards).all()
        if not same:
            raise Mistake(f"{game.frames.folder} differs from the replay of {game.rom}: delete it to build it again")
    return DataCheck(
        task=game.task,
        episodes=len(dataset),
        transitions=dataset.steps,
        mean=float(dataset.totals.mean()),
        least=float(dataset.totals.min()),
        most=float(dataset.totals.max()),
        duplicates=len(dataset) - len({trace.actions.tobytes() for trace in recording.traces}),
        coverage=len(np.unique(dataset.actions)) / game.actions,
        replayed=len(chosen),
        differing=(),
    )
