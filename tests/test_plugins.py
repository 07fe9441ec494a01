"""A plugin file adds suites; a run records it, and nothing imports it but who names it."""

import json
import sys
import tempfile
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import cloudpickle
import pytest

import holdfast
from holdfast.cli.main import main
from holdfast.errors import Mistake
from holdfast.registry import PLUGINS, REGISTRIES, SUITES, Plugin, load_plugin
from holdfast.study.grid import read_grid
from holdfast.study.jobs import expand
from holdfast.study.ray_cluster import RayEngine
from holdfast.study.running import End
from holdfast.tasks.processes import processes
from tests.tiny import QUIET

MINE = '''
"""Two corners of the toy field, played in processes of their own."""

from functools import partial

import gymnasium

from holdfast import Discrete, Interface, SuiteSpec, Task
from holdfast.benchmarks.toy.field import DiscreteMoves, Field, Rules, expert_dataset
from holdfast.tasks.workers import Workers

GOALS = {"Here": (0.5, 0.5), "There": (-0.5, -0.5)}


class Loud(gymnasium.Wrapper):
    """A class of the plugin's own."""


def rules(name):
    return Rules(GOALS[name], DiscreteMoves(Discrete(5, 5)), rail=False, ends=False)


def make(name):
    return Loud(Field(rules(name)))


def environments(name, protocol):
    return Workers(partial(make, name), protocol.lanes, processes=1)


def record(name, transitions):
    return expert_dataset(rules(name), transitions)


def tasks(choice):
    interface = Interface((4,), Discrete(5, 5), 20)
    return [
        Task(name, interface, 20.0, partial(record, name, choice.transitions), partial(environments, name))
        for name in GOALS
    ]


def answer(number):
    return number + 41


SMOKE = {"net.width": 16, "net.layers": 1, "fit.steps": 3, "fit.batch": 4, "protocol.episodes": 2, "transitions": 100}
SUITES = {
    "mine": SuiteSpec("mine", "Two corners.", tuple(GOALS), tasks, budgets={"smoke": SMOKE}, transitions=200)
}
'''
RUN = ["run", "--suite", "mine", "--learner", "naive", "--budget", "smoke", "--no-tensorboard", "--device", "cpu"]


pytestmark = pytest.mark.usefixtures("own_plugins")


def forget_plugins() -> None:
    """As in a new process."""
    for registry in REGISTRIES:
        registry.added, registry.owners = {}, {}
    for plugin in PLUGINS:
        del sys.modules[plugin.module]
    PLUGINS.clear()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "mine.py", MINE)


@pytest.fixture
def finished(file: Path, tmp_path: Path) -> Path:
    """A complete run of the plugin's suite, in a process that has not loaded the plugin."""
    load_plugin(file)
    main([*RUN, "--quiet", "--out", str(tmp_path / "run")])
    forget_plugins()
    return tmp_path / "run"


def written(path: Path, content: str) -> Path:
    path.write_text(dedent(content))
    return path


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one sentence with which a command is refused."""
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    sentence = capsys.readouterr().err
    assert sentence.count("\n") == 1
    return sentence


def test_a_suite_of_a_plugin_is_learned_evaluated_and_recorded(file: Path, tmp_path: Path) -> None:
    holdfast.plugin(str(file))
    suite = holdfast.suite("mine")
    learner = holdfast.learner("naive", suite, budget="smoke", device="cpu")
    matrix = holdfast.run(suite, learner, tmp_path / "run", QUIET)
    assert (matrix.suite, matrix.tasks, matrix.stages) == ("mine", ["Here", "There"], 2)
    record = json.loads((tmp_path / "run" / "config.json").read_text())
    assert record["plugins"] == [{"file": "mine.py", "sha256": Plugin.read(file).sha256}]
    assert record["config"]["transitions"] == 100


def test_a_run_that_uses_nothing_of_a_plugin_records_none(file: Path, tmp_path: Path) -> None:
    load_plugin(file)
    words = ["--suite", "toy", "--order", "NorthEast", "--transitions", "100", "--fit.steps", "2", "--evaluate", "none"]
    main([*RUN, *words, "--quiet", "--out", str(tmp_path / "run")])
    assert json.loads((tmp_path / "run" / "config.json").read_text())["plugins"] == []


COMMANDS = {
    "resume": ["run", "--config", "RUN", "--device", "cpu"],
    "copy": ["run", "--config", "RUN/config.json", "--out", "other"],
    "dry": ["run", "--config", "RUN", "--dry"],
    "evaluate": ["evaluate", "RUN", "--device", "cpu"],
    "verify": ["show", "RUN", "--verify"],
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_who_goes_on_with_a_run_loads_its_plugin_again(
    words: list[str], finished: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word.replace("RUN", str(finished)).replace("other", str(finished.parent / "other")) for word in words]
    sentence = refused(capsys, *words)
    assert "made with the plugin mine.py" in sentence
    assert "--plugin mine.py" in sentence
    assert "mine" not in SUITES
    assert Plugin.read(file).module not in sys.modules  # nothing is imported because a folder names it

    load_plugin(file)
    main(words)


def test_a_plugin_that_changed_is_one_sentence(finished: Path, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(file.read_text() + "\n# changed\n")
    load_plugin(file)
    for words in (["evaluate", str(finished)], [*RUN, "--out", str(finished)]):
        assert "mine.py is not the plugin that this folder was made with" in refused(capsys, *words)
    with pytest.raises(Mistake, match="load the recorded version"):
        holdfast.reopen(finished)


def test_records_are_read_without_the_plugin(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["show", str(finished)], ["show", str(finished), "--json"], ["table", str(finished)]):
        main(words)
        assert "There" in capsys.readouterr().out


def test_a_page_of_a_run_says_why_it_has_no_videos(finished: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    main(["report", str(finished), "--out", str(tmp_path / "page.html")])
    assert "made with the plugin mine.py" in (tmp_path / "page.html").read_text()


def test_a_strangers_record_of_plugins_is_checked(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = finished / "config.json"
    record = json.loads(path.read_text())
    for plugins in ("mine.py", [{"file": "mine.py"}], [{"file": 3, "sha256": "0"}], {"file": "mine.py"}):
        path.write_text(json.dumps({**record, "plugins": plugins}))
        assert "plugins" in refused(capsys, "show", str(finished))
    path.write_text(json.dumps({**record, "plugins": [{"file": "../x\x1b[2J.py", "sha256": "0"}]}))
    assert "\x1b" not in refused(capsys, "evaluate", str(finished))


def test_a_file_that_fails_to_load_is_one_sentence_and_adds_nothing(tmp_path: Path) -> None:
    for content, sentence in (
        ("import nowhere_at_all", "fails when it is loaded: ModuleNotFoundError"),
        ("def half(:", "fails when it is loaded: SyntaxError"),
        ("raise ValueError('a\\nb')", "fails when it is loaded: ValueError: a b"),
        ("x = 1", "defines no SUITES, LEARNERS or NETS"),
        ("SUITES = ['mine']", "SUITES in the plugin .* must be a dictionary"),
        ("SUITES = {3: None}", "must have strings as keys, got 3"),
        ("SUITES = {'fresh': 1}\nLEARNERS = {'naive': 1}", "defines the learner 'naive', which already exists"),
        ("SUITES = {'toy': 1}", "defines the suite 'toy', which already exists"),
    ):
        modules = set(sys.modules)
        with pytest.raises(Mistake, match=sentence) as mistake:
            load_plugin(written(tmp_path / "bad.py", content))
        assert "\n" not in str(mistake.value)
        assert (set(sys.modules), "fresh" in SUITES) == (modules, False)
    with pytest.raises(Mistake, match=r"cannot be read \(No such file"):
        load_plugin(tmp_path / "nowhere.py")


def test_a_name_that_another_plugin_has_is_refused(file: Path, tmp_path: Path) -> None:
    load_plugin(file)
    load_plugin(file)  # again does nothing
    with pytest.raises(Mistake, match="defines the suite 'mine', which already exists"):
        load_plugin(written(tmp_path / "other.py", MINE + "\nOTHER = 1\n"))
    assert [plugin.file for plugin in PLUGINS] == [file]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("SUITES = {'mine': 3}", "the suite mine must be a holdfast.SuiteSpec, got 3"),
        ("from holdfast.benchmarks.toy.suite import TOY\nSUITES = {'mine': TOY}", "toy is registered as mine"),
    ],
)
def test_a_suite_that_is_no_description_is_one_sentence(content: str, sentence: str, tmp_path: Path) -> None:
    load_plugin(written(tmp_path / "bad.py", content))
    with pytest.raises(Mistake, match=sentence):
        holdfast.suite("mine")


def test_the_settings_of_a_plugins_suite_stand_in_the_help(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load_plugin(file)
    with pytest.raises(SystemExit, match="0"):
        main(["run", "--suite", "mine", "--budget", "smoke", "--help"])
    assert "default: 100" in " ".join(capsys.readouterr().out.split())  # transitions, of its budget
    main(["suites"])
    assert "Two corners." in capsys.readouterr().out


def test_work_of_a_plugin_can_be_given_to_other_processes(file: Path) -> None:
    module = sys.modules[load_plugin(file).module]
    file.unlink()  # what was loaded is sent, not what the file has become
    with processes(1) as pool:
        assert pool.submit(module.answer, 1).result() == 42


def test_the_flag_loads_a_plugin_and_a_sweep_passes_it_on(file: Path, tmp_path: Path) -> None:
    grid = written(tmp_path / "grid.toml", '[[main]]\nsuite = "mine"\nlearner = "naive"\nbudget = "smoke"\n')
    words = ["sweep", str(grid), "--plugin", str(file), "--out", str(tmp_path / "runs"), "--quiet", "--device", "cpu"]
    main(words)
    [folder] = [path.parent for path in (tmp_path / "runs").glob("*/config.json")]
    record = json.loads((folder / "config.json").read_text())
    assert record["plugins"] == [{"file": "mine.py", "sha256": Plugin.read(file).sha256}]
    assert f"--plugin {file}" in record["command"]
    forget_plugins()
    main(words)
    assert len(list((tmp_path / "runs").glob("*/config.json"))) == 1  # it was there

    forget_plugins()
    file.write_text(file.read_text() + "\n# changed\n")
    main(words)
    assert len(list((tmp_path / "runs").glob("*/config.json"))) == 2  # another plugin, another run


class OneNode:
    """Stands in for Ray: a node with its own folder for temporary files, which gets what is sent, and nothing else."""

    def remote(self, **_: Any) -> Any:
        return lambda work: SimpleNamespace(
            remote=lambda order: list(work(cloudpickle.loads(cloudpickle.dumps(order))))
        )


def test_a_node_of_a_cluster_gets_the_content_of_a_plugin(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.study.ray_cluster.import_module", lambda _: OneNode())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    grid = written(tmp_path / "grid.toml", '[[main]]\nsuite = "mine"\nlearner = "naive"\nbudget = "smoke"\n')
    load_plugin(file)
    file.unlink()  # the node does not have it
    [job] = expand(read_grid(grid, tmp_path / "runs"), (), "cpu", cache=False)
    told = RayEngine(tmp_path / "runs", None, 1, 0, 1).start(job, tmp_path / "log").told  # type: ignore[attr-defined]
    assert told[-1] == End("success")


POINTS = """
[holdfast.suites]
installed = installed_suite:SPEC
broken = installed_suite:NOTHING
"""


@pytest.fixture
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with entry points, as pip installs one."""
    (tmp_path / "x-1.0.dist-info").mkdir()
    written(tmp_path / "x-1.0.dist-info" / "entry_points.txt", POINTS)
    written(tmp_path / "x-1.0.dist-info" / "METADATA", "Metadata-Version: 2.1\nName: x\nVersion: 1.0\n")
    written(tmp_path / "installed_suite.py", MINE.replace('"mine"', '"installed"') + "\nSPEC = SUITES['installed']\n")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("_installed")
def test_a_suite_of_an_installed_package_is_there_by_name(tmp_path: Path) -> None:
    assert holdfast.suite("installed").names == ["Here", "There"]
    main([*RUN, "--suite", "installed", "--quiet", "--evaluate", "none", "--out", str(tmp_path / "run")])
    record = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (record["plugins"], record["versions"]["x"]) == ([], "1.0")
    with pytest.raises(Mistake, match="the suite broken of the package x fails when it is loaded: AttributeError"):
        holdfast.suite("broken")
    with pytest.raises(Mistake, match="defines the suite 'installed', which already exists"):
        load_plugin(written(tmp_path / "other.py", "SUITES = {'installed': 3}"))


def test_built_ins_are_found_without_installed_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.registry.entry_points", lambda group: ())
    assert list(SUITES) == ["toy", "toy-continuous", "panda3", "atari5", "cw10", "cw20", "mt50"]
    assert all(holdfast.suite(name).names == list(SUITES[name].order) for name in SUITES)
