"""The command `holdfast completion`: prints a script that completes commands, flags and names in a shell."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import tyro

from holdfast.cli.main import COMMANDS, PLUGIN, settings_of
from holdfast.cli.parsing import parse_words
from holdfast.registry import LEARNERS, NETS, PLUGINS, SUITES
from holdfast.runs.options import Flag

ArgSettings: Any = type(tyro.conf.arg())
INLINE = ("plan", "options", "config")  # fields whose own fields are flags without a prefix
GENERAL = ("--help", PLUGIN)  # flags of every command


@dataclass(frozen=True)
class CompletionCommand:
    """Print a script that completes commands, flags and names in a shell.

    In bash: eval "$(holdfast completion bash)". In zsh: eval "$(holdfast completion zsh)".
    In fish: echo "holdfast completion fish | source" > ~/.config/fish/completions/holdfast.fish
    """

    shell: Annotated[Literal["bash", "zsh", "fish"], tyro.conf.Positional]
    """The shell that the script is for."""
    full: Flag = False
    """Print all flags and names, which the scripts for bash and zsh load when they are first needed."""


def completion_command(words: Sequence[str]) -> None:
    """Prints the script."""
    command = parse_words(CompletionCommand, "completion", words)
    if command.shell == "fish":
        print(fish_script(all_words()))
        return
    if command.shell == "zsh":
        print("autoload -Uz compinit bashcompinit && compinit && bashcompinit")
    print(bash_script(all_words()) if command.full else bash_loader())


@dataclass(frozen=True)
class Words:
    """What can stand after a command."""

    flags: Mapping[str, Sequence[str]]  # each with its possible values, if they can be listed
    first: Sequence[str]  # the possible first words, if they can be listed


def all_words() -> dict[str, Words]:
    """What can stand after each command."""
    return {name: words_of(name) for name in COMMANDS}


def words_of(name: str) -> Words:
    """What can stand after the command of this name."""
    if name == "run":
        return Words(_run_flags(), ())
    if name == "expert":
        from holdfast.cli.expert import experts

        tasks = [task for expert in experts().values() for task in expert.tasks]
        return Words({}, [task for task in tasks if " " not in task])
    if name == "agent":
        from holdfast.cli.agent import VERBS

        return Words({flag: values for kind, _ in VERBS.values() for flag, values in flags_of(kind)}, list(VERBS))
    settings = settings_of(name)
    return Words(dict(flags_of(settings)), next(filter(None, _positionals(settings)), ()))


def _run_flags() -> dict[str, Sequence[str]]:
    """The flags of `holdfast run`, of all learners and backbones together."""
    from holdfast.cli.run import default_command

    flags: dict[str, Sequence[str]] = {}
    for words in [["--learner", name] for name in LEARNERS] + [["--backbone", name] for name in NETS]:
        flags |= dict(flags_of(default_command(words)))
    return flags


def flags_of(settings: Any, prefix: str = "") -> Iterator[tuple[str, Sequence[str]]]:
    """The flags of a dataclass, or of an object of one, each with its possible values if they can be listed."""
    for name, hint in _hints(settings).items():
        value = getattr(settings, name, None)
        flag = _name_of(hint) or name.replace("_", "-")
        if is_dataclass(value):
            yield from flags_of(value, prefix if name in INLINE else f"{prefix}{flag}.")
        elif tyro.conf.Positional not in get_args(hint):
            yield f"--{prefix}{flag}", _names(prefix + flag) or _choices(hint)
            if hint is bool:
                yield f"--{prefix}no-{flag}", ()


def _name_of(hint: Any) -> str | None:
    """The name that a field has on the command line, if it is not its own."""
    notes = [note for note in get_args(hint) if isinstance(note, ArgSettings)]
    return notes[0].name if notes else None


def _names(flag: str) -> Sequence[str]:
    """The names that a flag takes; none if its values are no names."""
    if flag in ("preset", "budget"):
        from holdfast.runs.configure import BUDGETS, PRESETS

        return PRESETS if flag == "preset" else BUDGETS
    names = {"suite": SUITES, "learner": LEARNERS, "backbone": NETS, "device": ("auto", "cpu", "cuda")}
    return list(names.get(flag, ()))


def _positionals(settings: Any) -> list[Sequence[str]]:
    return [_choices(hint) for hint in _hints(settings).values() if tyro.conf.Positional in get_args(hint)]


def _hints(settings: Any) -> dict[str, Any]:
    hints = get_type_hints(settings if isinstance(settings, type) else type(settings), include_extras=True)
    return {field.name: hints[field.name] for field in fields(settings)}


def _choices(hint: Any) -> Sequence[str]:
    if get_origin(hint) in (Annotated, UnionType, Union):  # of one type and None
        return _choices(get_args(hint)[0])
    return get_args(hint) if get_origin(hint) is Literal else ()


BASH_LOADER = """_holdfast() {{
    if (( COMP_CWORD > 1 )) && [ -z "$_holdfast_loaded" ]; then
        _holdfast_loaded=1
        eval "$({full})"
        _holdfast
    else
        COMPREPLY=($(compgen -W "{commands}" -- "${{COMP_WORDS[COMP_CWORD]}}"))
    fi
}}
complete -o default -F _holdfast holdfast"""
BASH = """_holdfast() {{
    local previous="${{COMP_WORDS[COMP_CWORD-1]}}" current="${{COMP_WORDS[COMP_CWORD]}}"
    local command="" words="" word
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$word" in
            {commands}) command="$word"; break ;;
        esac
    done
    case "$current" in
        -*)
            case "$command" in
{flags}
                *) words="--help --plugin --version" ;;
            esac
            ;;
        *)
            case "$previous" in
{values}
                --plugin) ;;
                *) [ -z "$command" ] && words="{first}" ;;
            esac
            ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _holdfast holdfast"""


def bash_loader() -> str:
    """A script that knows the commands, and loads everything else when it is first needed, which takes seconds."""
    plugins = [word for plugin in PLUGINS for word in (PLUGIN, str(plugin.file))]
    full = shlex.join(["holdfast", "completion", "bash", "--full", *plugins])
    return BASH_LOADER.format(full=full, commands=" ".join([*COMMANDS, "help"]))


def bash_script(commands: Mapping[str, Words]) -> str:
    """Completes flags after a hyphen, names after a flag or a command that takes them, and files otherwise."""
    values = {flag: choices for words in commands.values() for flag, choices in words.flags.items() if choices}
    first = {name: words.first for name, words in commands.items() if words.first}
    after = {"help": list(commands), **first, **values}
    flags = [_case(name, [*words.flags, *GENERAL]) for name, words in commands.items()]
    return BASH.format(
        commands="|".join(commands),
        flags="\n".join(flags),
        values="\n".join(_case(*pair) for pair in after.items()),
        first=" ".join([*commands, "help"]),
    )


def _case(pattern: str, words: Sequence[str]) -> str:
    return f'                {pattern}) words="{" ".join(words)}" ;;'


def fish_script(commands: Mapping[str, Words]) -> str:
    """A line for each command and each flag."""
    lines = [
        f"complete -c holdfast -n __fish_use_subcommand -xa '{' '.join([*commands, 'help'])}'",
        f"complete -c holdfast -l {PLUGIN[2:]} -r",
    ]
    for name, words in commands.items():
        begin = f"complete -c holdfast -n '__fish_seen_subcommand_from {name}'"
        if words.first:
            lines.append(f"{begin} -xa '{' '.join(words.first)}'")
        for flag, choices in words.flags.items():
            values = f" -xa '{' '.join(choices)}'" if choices else ""
            lines.append(f"{begin} -l {flag[2:]}{values}")
    return "\n".join(lines)
