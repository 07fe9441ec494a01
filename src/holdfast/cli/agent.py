"""The command `holdfast agent`: dispatches to the commands of an agent."""

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.cli.agent_acting import ExportCommand, PlayCommand, export, play
from holdfast.cli.agent_history import (
    HistoryCommand,
    PruneCommand,
    RemoveCommand,
    RollbackCommand,
    history,
    prune,
    remove,
    rollback,
)
from holdfast.cli.agent_identifying import IdentifyCommand, identify_data
from holdfast.cli.agent_learning import DoctorCommand, LearnCommand, PreviewCommand, doctor, learn, preview
from holdfast.cli.agent_packs import InstallCommand, PackCommand, install, pack
from holdfast.cli.agent_records import ListCommand, VerifyCommand, list_tasks, verify
from holdfast.cli.output import print_lines
from holdfast.cli.parsing import PLUGIN, parse_words
from holdfast.data.validation import did_you_mean
from holdfast.errors import Mistake

VERBS: dict[str, tuple[Any, Callable[[Any], None]]] = {
    "learn": (LearnCommand, learn),
    "preview": (PreviewCommand, preview),
    "list": (ListCommand, list_tasks),
    "verify": (VerifyCommand, verify),
    "history": (HistoryCommand, history),
    "rollback": (RollbackCommand, rollback),
    "remove": (RemoveCommand, remove),
    "prune": (PruneCommand, prune),
    "play": (PlayCommand, play),
    "identify": (IdentifyCommand, identify_data),
    "doctor": (DoctorCommand, doctor),
    "export": (ExportCommand, export),
    "pack": (PackCommand, pack),
    "install": (InstallCommand, install),
}
USAGE = f"""usage: holdfast agent COMMAND FOLDER ...

  learn     learn a task from your own data: holdfast agent learn FOLDER NAME --data WHERE
  preview   say where a task would go and what it would cost: holdfast agent preview FOLDER NAME --data WHERE
  list      list the tasks of an agent
  verify    compute every certificate again from the files
  history   list the changes of an agent with their numbers, and what happened in between
  rollback  go back to what an agent was after an earlier change: holdfast agent rollback FOLDER --to NUMBER
  remove    forget a task, while all others stay equal to the bit: holdfast agent remove FOLDER NAME
  prune     delete what only the past of an agent needs
  play      play episodes of a task in its environment
  identify  say which task a dataset is of: holdfast agent identify FOLDER --data WHERE
  doctor    check your own data before anything is learned from it: holdfast agent doctor --data WHERE
  export    write the policy of a task: holdfast agent export FOLDER NAME --to policy.onnx
  pack      write one task as one file: holdfast agent pack FOLDER NAME --to FILE
  install   put a packed task into an agent: holdfast agent install FOLDER FILE

holdfast agent COMMAND --help tells more.
{PLUGIN}"""


def agent_command(words: Sequence[str]) -> None:
    """Does what the first word says."""
    if not words or words[0] in ("-h", "--help"):
        print_lines(USAGE)
        raise SystemExit(0)
    verb, *rest = words
    if verb not in VERBS:
        raise Mistake(f"there is no command agent {verb!r}{did_you_mean(verb, VERBS)}; there are {', '.join(VERBS)}")
    kind, action = VERBS[verb]
    action(parse_words(kind, f"agent {verb}", rest))
