"""What a newcomer types, and what the command line answers."""

import ast
import inspect
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from rich.console import Console

import holdfast
from holdfast.agent import progress as recorder
from holdfast.agent.progress import Pace, Screen
from holdfast.benchmarks.atari import action_lists as blind
from holdfast.benchmarks.atari import expert as atari
from holdfast.benchmarks.panda import expert_returns as starts
from holdfast.benchmarks.panda import reach, tune
from holdfast.cli import main as cli
from holdfast.cli.completion import flags_of, words_of
from holdfast.cli.main import COMMANDS, main
from holdfast.cli.run import default_command, parse_run
from holdfast.data.printable import printable
from holdfast.registry import LEARNERS, SUITES
from holdfast.runs.folder import RunFolder
from holdfast.runs.run import run
from holdfast.study.export import ExportCommand
from holdfast.tasks.suite import RecordedData
from tests.tiny import QUIET, tiny_learner, tiny_suite

SETTINGS = {name: settings for name in COMMANDS if (settings := cli.settings_of(name))}
SMOKE = ["run", "--suite", "toy", "--learner", "naive", "--budget", "smoke", "--fit.steps", "4", "--no-tensorboard"]
SHORT = [*SMOKE, "--order", "NorthEast", "SouthWest", "--protocol.episodes", "2"]


def printed(capsys, *words: str) -> str:
    """What a command that must succeed prints."""
    main(list(words))
    return capsys.readouterr().out


def refused(capsys, *words: str) -> str:
    """The sentence of a command that must fail."""
    with pytest.raises(SystemExit) as end:
        main(list(words))
    assert end.value.code == 2
    *_, sentence = capsys.readouterr().err.splitlines()
    assert sentence.startswith("holdfast: ")
    return sentence


def helped(capsys, *words: str) -> str:
    """What a help page says."""
    with pytest.raises(SystemExit) as end:
        main(list(words))
    assert end.value.code == 0
    return capsys.readouterr().out


def in_shell(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).parents[1])}
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *words], env=environment, text=True, check=False, **options
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    path = tmp_path_factory.mktemp("finished") / "run"
    main([*SHORT, "--quiet", "--out", str(path)])
    return path


# Finding one's way


def test_the_version_is_printed(capsys):
    assert printed(capsys, "--version") == f"holdfast {holdfast.__version__}\n"


def test_help_names_every_command(capsys):
    for words in ([], ["help"], ["--help"], ["-h"]):
        said = printed(capsys, *words)
        assert all(f"\n  {name} " in said for name in COMMANDS)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_a_help_page(name, capsys):
    words = ([name, "--help"], ["help", name])
    pages = []
    for said in words:
        if name == "expert":
            pages.append(printed(capsys, *said))
        else:
            pages.append(helped(capsys, *said))
    assert pages[0] == pages[1]
    assert f"holdfast {name}" in pages[0]


@pytest.mark.parametrize(("wrong", "right"), [("evalaute", "evaluate"), ("sutes", "suites"), ("learner", "learners")])
def test_an_unknown_command_is_answered_with_the_nearest(wrong, right, capsys):
    assert f"did you mean {right}?" in refused(capsys, wrong)


@pytest.mark.parametrize("words", ["--version", "help", "suites", "completion bash", "completion zsh"])
def test_what_needs_no_network_does_not_import_torch(words):
    code = "import sys; from holdfast.cli.main import main; main(sys.argv[1:]); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code, *words.split()], check=True, capture_output=True)


def test_what_holdfast_promises_to_python_is_there():
    promised = {name for names in holdfast.MODULES.values() for name in names}
    assert promised | {"plugin"} == set(holdfast.__all__)
    assert promised <= set(dir(holdfast))
    for name in holdfast.__all__:
        assert getattr(holdfast, name).__class__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        holdfast.nothing  # noqa: B018


# Help texts


def settings_of(thing: Any) -> Iterator[type]:
    """A class of settings, and those that it is made of."""
    yield thing if isinstance(thing, type) else type(thing)
    for field in fields(thing):
        if is_dataclass(value := getattr(thing, field.name, None)):
            yield from settings_of(value)


def every_setting() -> list[type]:
    """The classes that flags are made from, with those that they inherit from."""
    experts = (
        atari.AtariExpertConfig("breakout"),
        tune.TuneConfig(),
        reach.ReachConfig(),
        starts.ExpertReturnsConfig,
        blind.ActionListsConfig,
        ExportCommand,
    )
    runs = [default_command(["--learner", learner]) for learner in LEARNERS]
    found = [kind for thing in (*SETTINGS.values(), *runs, *experts) for kind in settings_of(thing)]
    return list(dict.fromkeys(base for kind in found for base in kind.__mro__ if is_dataclass(base)))


def documented(kind: type) -> Iterator[tuple[str, str | None]]:
    """The fields of a class that have flags of their own, with the text under each."""
    [definition] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    body = definition.body  # type: ignore[attr-defined]
    for line, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and "ClassVar" not in ast.dump(line):
            under = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            yield line.target.id, str(following.value.value) if under else None  # type: ignore[union-attr]


EXPERTS = [["expert", task] for task in ("panda/push", "panda/reach", "atari/breakout")]
GROUPS = ("plan", "options", "config", "net", "fit", "subnets", "routing", "protocol", "ppo", "recorder")


@pytest.mark.parametrize("kind", every_setting(), ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_a_help_text_is_a_sentence_that_needs_no_flag_to_be_read(kind):
    for name, text in documented(kind):
        if text is None and name in GROUPS:
            continue
        assert text, f"{name} has no help"
        assert "\n" not in text, f"{name}: the help is broken in the middle of a line"
        assert text.endswith("."), f"{name}: {text}"
        assert not text.startswith(("Of ", "Per ", "Whose ", "Which ")), f"{name}: {text}"
        assert len(text.split()) > 2, f"{name}: {text}"


@pytest.mark.parametrize("words", [[name] for name in SETTINGS] + EXPERTS, ids=" ".join)
def test_values_are_named_without_none(words, capsys):
    assert "None}" not in helped(capsys, *words, "--help")


# Output for programs


def test_lists_are_there_as_json(capsys):
    assert [one["name"] for one in json.loads(printed(capsys, "suites", "--json"))] == list(SUITES)
    assert [one["name"] for one in json.loads(printed(capsys, "learners", "--json"))] == list(LEARNERS)
    [toy, *_] = json.loads(printed(capsys, "suites", "--json"))
    assert toy["tasks"] == ["NorthEast", "SouthWest", "NorthWest", "SouthEast"]


def test_data_is_listed_as_json(capsys, monkeypatch):
    recorded = RecordedData(lambda *_: [], lambda *_: [], lambda: [("game", 3, 40)])
    monkeypatch.setitem(SUITES.added, "atari5", replace(SUITES["atari5"], recorded=recorded))
    monkeypatch.setattr("holdfast.cli.data.local_datasets", list)
    monkeypatch.setattr("holdfast.benchmarks.panda.suite.local_datasets", list)
    monkeypatch.setattr("holdfast.benchmarks.continualworld.suite.local_datasets", list)
    assert json.loads(printed(capsys, "data", "list", "--json")) == [{"name": "game", "episodes": 3, "transitions": 40}]


def test_a_run_is_shown_as_json(capsys, finished):
    shown = json.loads(printed(capsys, "show", str(finished), "--json"))
    assert shown["complete"]
    assert shown["next"] is None
    assert shown["learned"] == shown["tasks"] == ["NorthEast", "SouthWest"]
    assert shown["matrix"]["metrics"] == RunFolder(finished).read_matrix().metrics()


def test_a_sweep_tells_as_json_how_each_run_ended(capsys, tmp_path):
    grid = tmp_path / "grid.toml"
    grid.write_text(f'out = "{tmp_path / "runs"}"\n[[main]]\nlearner = ["naive"]\nbudget = "smoke"\n"fit.steps" = 2\n')
    [ended] = json.loads(printed(capsys, "sweep", str(grid), "--json", "--quiet", "--device", "cpu"))
    assert ended["state"] == "done"
    assert Path(ended["folder"], "config.json").exists()


# Before and after a run


def test_a_dry_run_tells_the_plan_and_writes_nothing(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = printed(capsys, *SHORT, "--out", "run", "--dry")
    for part in ("toy", "NorthEast, SouthWest", "naive", "4 steps per task, 8 in all", "run (new)", "all there"):
        assert part in said
    assert "about 0:00:" in said
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_tells_what_is_left_of_a_run(capsys, finished):
    said = printed(capsys, *SHORT, "--out", str(finished), "--dry")
    assert "complete" in said
    assert "all tasks are trained" in said
    assert "is a run with fit.steps = 4, not 5" in refused(
        capsys, *SHORT, "--fit.steps", "5", "--out", str(finished), "--dry"
    )
    assert "not a run folder" in refused(capsys, *SHORT, "--out", str(finished.parent), "--dry")


def test_a_dry_run_says_which_data_would_be_made(capsys, tmp_path, monkeypatch):
    pytest.importorskip("panda_gym")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    words = ["--suite", "panda3", "--budget", "smoke", "--net.width", "8", "--net.heads", "1", "--net.layers", "1"]
    said = printed(capsys, "run", *words, "--fit.batch", "2", "--out", str(tmp_path / "run"), "--dry")
    assert "would be made first: PandaReach, PandaPush, PandaPickAndPlace" in said
    assert "ms per step" in said
    assert not (tmp_path / "run").exists()


def test_the_settings_of_a_run_can_be_taken_from_its_folder(finished):
    plan = parse_run(["--config", str(finished)]).plan
    for source in (finished, finished / "config.json"):
        words = ["--config", str(source)]
        command = parse_run(words)
        assert command.plan == plan
        assert command.plan.config.fit.steps == 4
        assert command.plan.order == ("NorthEast", "SouthWest")
        assert command.out == finished  # so that it resumes
        other = parse_run([*words, "--seed", "3", "--out", "other"])
        assert other.plan == replace(plan, seed=3)
        assert other.out == Path("other")


def test_settings_of_a_run_are_kept_under_another_budget_or_learner(finished, capsys):
    words = ["--config", str(finished), "--learner", "ewc", "--budget", "quick"]
    plan = parse_run(words).plan
    assert (plan.learner, plan.budget) == ("ewc", "quick")
    assert plan.config.fit.steps == 4  # said of the run, and no budget's
    assert plan.order == ("NorthEast", "SouthWest")


def test_a_setting_that_another_learner_lacks_is_a_mistake(capsys, tmp_path):
    words = ["run", "--learner", "ewc", "--strength", "7", "--out", str(tmp_path / "run")]
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"config": json.loads(json.dumps(asdict(parse_run(words[1:]).plan)))}))
    said = refused(capsys, "run", "--config", str(path), "--learner", "naive", "--out", str(tmp_path / "run"))
    assert "the learner naive has no setting strength" in said
    path.write_text("[]")
    assert "not the config.json of a run" in refused(capsys, "run", "--config", str(path))
    assert "is missing" in refused(capsys, "run", "--config", str(tmp_path / "nowhere"))


def test_the_suggested_command_goes_on_with_a_run(capsys, tmp_path):
    path = tmp_path / "a run"
    words = [*SHORT, "--evaluate", "none", "--quiet", "--out", str(path)]
    main(words)
    shown = json.loads(printed(capsys, "show", str(path), "--json"))
    assert shown["next"] == f"holdfast evaluate {shlex.quote(str(path))}"
    said = printed(capsys, "show", str(path))
    assert "learned 2 of 2 tasks (NorthEast, SouthWest)" in said
    assert "not evaluated yet" in said
    assert f"to go on: holdfast evaluate '{path}'" in said
    main([*shlex.split(shown["next"])[1:], "--quiet"])
    assert json.loads(printed(capsys, "show", str(path), "--json"))["complete"]


def test_a_run_that_is_under_way_is_shown(capsys, tmp_path, monkeypatch):
    found = tiny_suite(tasks=2)
    path = tmp_path / "under way"

    def interrupt(self: Any, done: int, total: int, loss: float) -> None:
        if (self.current.stage, done) == (1, 8):
            raise KeyboardInterrupt

    monkeypatch.setattr(recorder.FolderRecorder, "progress", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(found, tiny_learner("naive", found), path, QUIET)
    said = printed(capsys, "show", str(path))
    assert "mean return" in said  # of what is evaluated
    assert "learned 1 of 2 tasks (NorthEast)" in said
    assert "learning SouthWest: step 8 of 12" in said
    assert f"to go on: holdfast run --config '{path}'" in said


# Progress


def test_without_a_terminal_progress_is_a_line_for_the_first_and_the_last_and_now_and_then(capsys, monkeypatch):
    now = 100.0
    monkeypatch.setattr(recorder.time, "monotonic", lambda: now)
    with Screen() as screen:
        for done in range(0, 101, 10):
            screen.show("task 1 of 2: learn A", done, 100, whole=done / 200)
            now += 20
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(",")[0].rpartition(":")[2] for line in lines] == [
        f" {done} of 100" for done in (0, 20, 40, 60, 80, 100)
    ]
    assert lines[1].endswith("about 0:06:00 left in all")  # 40 s for a tenth
    assert all("task 1 of 2: learn A" in line for line in lines)


def test_the_time_left_counts_from_where_a_run_was_resumed(monkeypatch):
    now = 0.0
    monkeypatch.setattr(recorder.time, "monotonic", lambda: now)
    pace = Pace(0.5)
    assert pace.left(0.5) == ""
    now = 10.0
    assert pace.left(0.75) == "about 0:00:10 left"
    assert pace.left(1.0) == ""


def test_a_run_says_which_task_of_how_many_it_learns(capsys, tmp_path):
    main([*SHORT, "--out", str(tmp_path / "run")])
    said = capsys.readouterr().err
    for line in (
        "task 1 of 2: learn NorthEast: 0 of 4",
        "task 2 of 2: learn SouthWest: 4 of 4",
        "task 2 of 2: evaluate",
    ):
        assert line in said


def test_a_quiet_run_says_nothing(capsys, tmp_path):
    main([*SHORT, "--quiet", "--out", str(tmp_path / "run")])
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")


def test_a_check_of_data_says_that_it_builds_first(capsys, monkeypatch):
    def build(*_: Any) -> list[str]:
        assert "building the data of panda3 that is missing" in capsys.readouterr().err
        return []

    recorded = RecordedData(build, lambda *_: [], list)
    monkeypatch.setitem(SUITES.added, "panda3", replace(SUITES["panda3"], recorded=recorded))
    main(["data", "check", "panda3"])


# Names of yesterday


@pytest.mark.parametrize("flag", ["--single {0}", "--single={0}", "--reference {0}"])
def test_a_reference_has_its_old_name_too(flag, capsys, tmp_path):
    assert "not a run folder" in refused(capsys, *SHORT, *flag.format(tmp_path).split(), "--out", str(tmp_path / "run"))


def test_a_cache_has_its_old_name_too(tmp_path):
    for flag in ("--memo", "--cache"):
        main([*SHORT, "--quiet", flag, str(tmp_path / flag), "--out", str(tmp_path / f"run{flag}")])
        assert list((tmp_path / flag).glob("*.sealed"))


def test_rebuilding_has_its_old_name_too(monkeypatch):
    asked: list[bool] = []

    def build(suite: Any, report: Any, rebuild: bool) -> list[str]:
        asked.append(rebuild)
        return []

    recorded = RecordedData(build, lambda *_: [], list)
    monkeypatch.setitem(SUITES.added, "panda3", replace(SUITES["panda3"], recorded=recorded))
    for words in (["--again"], ["--rebuild"], []):
        main(["data", "build", "panda3", "--quiet", *words])
    assert asked == [True, True, False]


def test_a_grid_may_call_a_reference_by_its_old_name(capsys, tmp_path):
    names = []
    single = tmp_path / "single"
    main([*SHORT, "--learner", "single", "--quiet", "--out", str(single)])
    for key in ("single", "reference"):
        grid = tmp_path / f"{key}.toml"
        grid.write_text(
            f'out = "{tmp_path / "runs"}"\n[[main]]\nlearner = "naive"\nbudget = "smoke"\n'
            f'order = [["NorthEast", "SouthWest"]]\n"protocol.episodes" = 2\n{key} = "{single}"\n'
        )
        said = printed(capsys, "sweep", str(grid), "--dry", "--no-memo", "--device", "cpu")
        assert f"--reference {single}" in said
        names.append(said.split("-")[-1])
    assert names[0] == names[1]


# Completion


def test_a_completion_script_is_valid_bash_and_completes(capsys, tmp_path):
    path = tmp_path / "completion.bash"
    path.write_text(printed(capsys, "completion", "bash", "--full"))
    subprocess.run(["bash", "-n", str(path)], check=True)

    def completed(*words: str) -> list[str]:
        return in_bash(f"source {path}", *words)

    assert set(completed("")) == {*COMMANDS, "help"}
    assert completed("ev") == ["evaluate"]
    assert completed("run", "--suite", "pan") == ["panda3"]
    assert completed("run", "--learner", "affinity-") == ["affinity-a", "affinity-l", "affinity-h"]
    assert completed("run", "--fit.st") == ["--fit.steps"]
    assert completed("run", "--routing.al") == ["--routing.alpha"]
    assert completed("run", "--fit.precision", "b") == ["bfloat16"]
    assert completed("data", "b") == ["build"]
    assert completed("table", "--format", "t") == ["tex"]
    assert completed("show", "runs/") == []  # bash itself completes files
    assert completed("--plugin", "mine.py", "ev") == ["evaluate"]
    assert completed("--plugin", "mine.py", "run", "--fit.st") == ["--fit.steps"]
    assert completed("run", "--plu") == completed("--plu") == ["--plugin"]


def in_bash(begin: str, *words: str) -> list[str]:
    """What bash offers after these words."""
    code = f"{begin}; COMP_WORDS=({shlex.join(['holdfast', *words])}); COMP_CWORD={len(words)}; _holdfast"
    script = f'{code}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    return subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True).stdout.split()


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_short_script_knows_the_commands_and_loads_the_rest_when_it_is_needed(shell, capsys, tmp_path):
    path = tmp_path / "completion.bash"
    script = printed(capsys, "completion", shell)
    path.write_text(script.removeprefix("autoload -Uz compinit bashcompinit && compinit && bashcompinit\n"))
    full = tmp_path / "full"
    full.write_text(printed(capsys, "completion", "bash", "--full"))
    begin = f"source {path}; holdfast() {{ [ \"$*\" = 'completion bash --full' ] && cat {full}; }}"
    assert in_bash(begin, "ev") == ["evaluate"]
    assert in_bash(begin, "run", "--fit.st") == ["--fit.steps"]
    assert in_bash(f"source {path}; holdfast() {{ false; }}", "run", "ev") == ["evaluate"]  # and not for ever


@pytest.mark.parametrize("name", list(SETTINGS))
def test_the_flags_of_a_completion_are_those_of_the_command(name, capsys):
    flags = dict(flags_of(default_command([]))) if name == "run" else words_of(name).flags
    described = re.findall(r"^[|│ ]*(--[a-z].*)", helped(capsys, name, "--help"), re.MULTILINE)
    known = {flag for line in described for flag in re.findall(r"--[a-z][a-z.-]*", line.partition("  ")[0])}
    assert set(flags) == known


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_the_same_commands_and_flags(shell, capsys):
    script = printed(capsys, "completion", shell, "--full")
    assert "affinity-l" in script
    assert "fit.learning-rate" in script
    assert all(name in script for name in COMMANDS)


# What must not reach a terminal


EVIL = "\x1b]0;owned\x07\x1b[31m[link=file:///etc]x[/link] [red]y :smile:"


def crafted(path: Path) -> Path:
    """A run folder whose records carry codes and markup in the place of a task's name."""
    for name in (
        "config.json",
        "matrix.json",
        "routes.json",
        "certificates.json",
        "events.jsonl",
    ):
        file = path / name
        if file.exists():
            file.write_text(file.read_text().replace("NorthEast", json.dumps(EVIL)[1:-1]))
    index = path / "weights" / "index.json"  # where names of files stay
    index.write_text(index.read_text().replace('"NorthEast"', json.dumps(EVIL)))
    return path


def test_names_from_files_are_neither_markup_nor_codes(capsys, tmp_path):
    found = tiny_suite(tasks=2)
    for learner in ("naive", "affinity-l"):
        path = tmp_path / learner
        run(found, tiny_learner(learner, found), path, QUIET)
        main(["show", str(crafted(path))])
        said = capsys.readouterr().out
        assert "\x1b" not in said
        assert "\x07" not in said
        joined = "".join(said.split())
        assert "[link=" in joined.replace("│", "")
        assert ":smile:" in joined.replace("│", "")


def test_a_folder_with_markup_in_its_name_is_printed_as_it_is(capsys, tmp_path, finished):
    path = tmp_path / "[red]mark :smile: \x1b[31m"
    shutil.copytree(finished, path)
    said = printed(capsys, "show", str(path))
    assert "[red]mark :smile: \\x1b[31m" in said
    assert "\x1b" not in said
    (path / "config.json").write_text("{}")
    sentence = refused(capsys, "show", str(path))
    assert "[red]mark :smile: \\x1b[31m" in sentence
    assert "\x1b" not in sentence


def test_bars_show_names_as_they_are(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    console = Console(file=io.StringIO(), force_terminal=True, width=300)
    monkeypatch.setattr(recorder, "Console", lambda **_: console)
    with Screen() as screen:
        screen.show(f"learn {EVIL}", 1, 2, EVIL)
    said = console.file.getvalue()
    assert "\x1b]" not in said
    assert "\x07" not in said
    assert "[link=file:///etc]x[/link] [red]y :smile:" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said)


@pytest.mark.parametrize("text", ["a\x1bb", "a\nb", "a\x9bb", "a\u202eb", "a\udc80b", "a\x00b", "a\x7fb"])
def test_plain_text_can_be_printed_and_holds_no_control_character(text):
    written = printable(text)
    assert written.isprintable()
    assert written.startswith("a\\")
    assert written.endswith("b")
    written.encode()


def test_plain_text_leaves_words_of_all_languages_alone():
    assert printable("Żurek 机器人 [x] C:\\dir") == "Żurek 机器人 [x] C:\\dir"


# Standard output that cannot be written, and interrupts


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("words", [["show", "RUN"], ["suites"], ["help"], ["show", "RUN", "--json"]], ids=" ".join)
def test_an_output_that_is_full_is_one_sentence(words, finished):
    with open("/dev/full", "w") as full:
        ended = in_shell(*(str(finished) if word == "RUN" else word for word in words), stdout=full, stderr=PIPE)
    assert ended.returncode == 2
    assert ended.stderr == "holdfast: the output cannot be written (No space left on device)\n"


def test_an_output_that_is_closed_is_one_sentence(finished):
    ended = in_shell("show", str(finished), stderr=PIPE, preexec_fn=lambda: os.close(1))
    assert ended.returncode == 2
    assert ended.stderr == "holdfast: standard output is closed: redirect it to a file, or to /dev/null\n"


def test_an_interrupt_while_modules_are_imported_is_one_word(tmp_path):
    slow = tmp_path / "torch.py"
    slow.write_text(
        "import sys, time\n"
        "print('importing', flush=True)\n"
        "try:\n    time.sleep(60)\nexcept BaseException:\n    raise ImportError('broken') from None\n"
    )
    path = os.pathsep.join([str(tmp_path), str(Path(holdfast.__file__).parents[1])])
    words = [sys.executable, "-m", "holdfast", "learners"]
    with subprocess.Popen(words, env={**os.environ, "PYTHONPATH": path}, stdout=PIPE, stderr=PIPE, text=True) as begun:
        assert begun.stdout.readline() == "importing\n"
        begun.send_signal(signal.SIGINT)
        assert begun.stderr.read() == "holdfast: interrupted\n"
    assert begun.returncode == 130


def test_an_interrupt_that_is_ignored_stays_ignored(monkeypatch):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with cli._ended_at_once_by_interrupt():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
