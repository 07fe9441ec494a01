"""Scripts that complete commands, flags and names in a shell."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import tyro

from holdfast.learners.registry import LEARNERS
from holdfast.registry import SUITES
from holdfast.runs.command import RunCommand, default_command
from holdfast.runs.configure import BUDGETS, PRESETS

Shell = Literal["bash", "zsh", "fish"]
NAMES: Mapping[str, Sequence[str]] = {
    "--suite": list(SUITES),
    "--learner": list(LEARNERS),
    "--preset": PRESETS,
    "--budget": BUDGETS,
    "--device": ("auto", "cpu", "cuda"),
}
INLINE = ("plan", "options", "config")  # settings whose flags do not begin with their name


@dataclass(frozen=True)
class Words:
    """What can stand after a command."""

    flags: Mapping[str, Sequence[str]]  # each with the values it can have, if they can be listed
    first: Sequence[str]  # what the first word can be, if that can be listed


def words_of(command: Any) -> Words:
    """What can stand after the command that this class describes."""
    if command is RunCommand:
        return Words(run_flags(), ())
    return Words(dict(_flags(command)), next(filter(None, _positionals(command)), ()))


def run_flags() -> dict[str, Sequence[str]]:
    """The flags of `holdfast run`, whichever the learner."""
    found: dict[str, Sequence[str]] = {}
    for learner in LEARNERS:
        found |= dict(_flags(default_command(["--learner", learner])))
    return found


def _flags(thing: Any, prefix: str = "") -> Iterator[tuple[str, Sequence[str]]]:
    for name, hint in _hints(thing).items():
        value = getattr(thing, name, None)
        flag = name.replace("_", "-")
        if is_dataclass(value):
            yield from _flags(value, prefix if name in INLINE else f"{prefix}{flag}.")
        elif tyro.conf.Positional not in get_args(hint):
            yield f"--{prefix}{flag}", NAMES.get(f"--{prefix}{flag}", _choices(hint))
            if hint is bool:
                yield f"--{prefix}no-{flag}", ()


def _positionals(command: Any) -> list[Sequence[str]]:
    return [_choices(hint) for hint in _hints(command).values() if tyro.conf.Positional in get_args(hint)]


def _hints(thing: Any) -> dict[str, Any]:
    hints = get_type_hints(thing if isinstance(thing, type) else type(thing), include_extras=True)
    return {field.name: hints[field.name] for field in fields(thing)}


def _choices(hint: Any) -> Sequence[str]:
    if get_origin(hint) in (Annotated, UnionType, Union):  # of one type and None
        return _choices(get_args(hint)[0])
    return get_args(hint) if get_origin(hint) is Literal else ()


def script(shell: Shell, commands: Mapping[str, Words]) -> str:
    """The script for a shell."""
    if shell == "fish":
        return fish(commands)
    if shell == "zsh":
        return f"autoload -Uz compinit bashcompinit && compinit && bashcompinit\n{bash(commands)}"
    return bash(commands)


BASH = """_holdfast() {{
    local command="${{COMP_WORDS[1]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" current="${{COMP_WORDS[COMP_CWORD]}}"
    local words=""
    case "$current" in
        -*)
            case "$command" in
{flags}
            esac
            ;;
        *)
            case "$previous" in
{values}
            esac
            ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _holdfast holdfast"""


def bash(commands: Mapping[str, Words]) -> str:
    """Flags after a hyphen, names after a flag or a command that takes them, otherwise files."""
    values = {flag: choices for words in commands.values() for flag, choices in words.flags.items() if choices}
    first = {name: words.first for name, words in commands.items() if words.first}
    after = {"holdfast": [*commands, "help"], "help": list(commands), **first, **values}
    flags = [_case(name, [*words.flags, "--help"]) for name, words in commands.items()]
    return BASH.format(flags="\n".join(flags), values="\n".join(_case(*pair) for pair in after.items()))


def _case(pattern: str, words: Sequence[str]) -> str:
    return f'                {pattern}) words="{" ".join(words)}" ;;'


def fish(commands: Mapping[str, Words]) -> str:
    """A line for every command and every flag."""
    lines = [f"complete -c holdfast -n __fish_use_subcommand -xa '{' '.join([*commands, 'help'])}'"]
    for name, words in commands.items():
        begin = f"complete -c holdfast -n '__fish_seen_subcommand_from {name}'"
        if words.first:
            lines.append(f"{begin} -xa '{' '.join(words.first)}'")
        for flag, choices in words.flags.items():
            values = f" -xa '{' '.join(choices)}'" if choices else ""
            lines.append(f"{begin} -l {flag[2:]}{values}")
    return "\n".join(lines)
