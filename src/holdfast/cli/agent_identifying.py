"""The command `holdfast agent identify`: which learned task a dataset is of."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter
from statistics import median
from typing import Any

from rich.table import Table
from rich.text import Text

from holdfast.agent.identify import Identification, KnownTask, identify
from holdfast.agent.sketch import spread
from holdfast.cli.agent_folders import Folder, opened, shown
from holdfast.cli.output import Output, print_json, print_lines
from holdfast.data.printable import printable
from holdfast.data.raw_episodes import RawEpisodes, mapped
from holdfast.data.sources import read_source
from holdfast.runs.options import Flag

MOST_EPISODES = 100  # of a dataset, spread over it
NONE = "none of these"


@dataclass(frozen=True)
class IdentifyCommand:
    """Say which learned task a dataset is of, if any: every episode has a vote."""

    folder: Folder
    """The agent's folder."""
    data: str
    """The data, as for learn."""
    json: Flag = False
    """Print the votes and distances as JSON."""


def identify_data(command: IdentifyCommand) -> None:
    """Prints the task that most episodes of a dataset belong to, and the distances to all."""
    agent = opened(command.folder)
    raw = read_source(command.data)
    raw.check_finite()
    found = identified_episodes(agent.known_tasks(), raw)
    votes = Counter(one.task or NONE for one in found)
    task, count = votes.most_common(1)[0]
    if 2 * count <= len(found):
        task = NONE
    rows = [distances(name, found) for name in agent.tasks]
    if command.json:
        answer = None if task == NONE else task
        print_json({"task": answer, "episodes": len(found), "votes": dict(votes), "candidates": rows})
        return
    others = [f"; {count} of {name}" for name, count in votes.items() if name != task]
    print_lines(f"{task}: {votes[task]} of {len(found)} episodes{''.join(others)}")
    table = Table()
    for name in ("task", "observations", "actions", "reason"):
        table.add_column(name, justify="right" if name in ("observations", "actions") else "left")
    for row in rows:
        table.add_row(*(Text(printable(shown(value))) for value in row.values()))
    Output().print(table)


def identified_episodes(known: Sequence[KnownTask], raw: RawEpisodes) -> list[Identification]:
    """The task of each episode."""
    found = []
    for episode in spread(len(raw), MOST_EPISODES):
        steps = slice(raw.starts[episode], raw.starts[episode] + raw.lengths[episode])
        observations, actions = (mapped(itemgetter(steps), tree) for tree in (raw.observations, raw.actions))
        found.append(identify(known, observations, actions, None if raw.rewards is None else raw.rewards[steps]))
    return found


def distances(name: str, found: Sequence[Identification]) -> dict[str, Any]:
    """The median distances of a task over all episodes, and why it cannot be compared."""
    candidates = [asdict(one) for each in found for one in each.candidates if one.task == name]
    row: dict[str, Any] = {"task": name}
    for part in ("observations", "actions"):
        values = [one[part] for one in candidates if one[part] is not None]
        row[part] = median(values) if values else None
    return {**row, "reason": candidates[0]["reason"] if candidates else "a task of the run's suite"}
