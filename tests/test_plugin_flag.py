"""--plugin FILE.py on the command line: wherever it stands, the file is loaded before the command is looked at."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import registry
from holdfast.cli.main import COMMANDS, main
from holdfast.study.grid import read_grid
from holdfast.study.jobs import Job, expand
from holdfast.study.running import Launch

NETS = list(registry.NETS)
NET = '''
from dataclasses import dataclass

from holdfast.nets.mlp import MlpConfig


@dataclass(frozen=True)
class Linear(MlpConfig):
    """One linear layer.

    More about it.
    """

NETS = {"linear": Linear}
'''


pytestmark = pytest.mark.usefixtures("own_plugins")


@pytest.fixture
def plugin(tmp_path: Path) -> str:
    path = tmp_path / "mine.py"
    path.write_text(NET)
    return str(path)


@pytest.mark.parametrize("place", ["before", "after", "joined"])
def test_a_plugin_is_loaded_wherever_it_is_named(place, plugin, capsys):
    words = {
        "before": ["--plugin", plugin, "nets", "--json"],
        "after": ["nets", "--json", "--plugin", plugin],
        "joined": ["nets", f"--plugin={plugin}", "--json"],
    }
    main(words[place])
    assert json.loads(capsys.readouterr().out)[-1] == {"name": "linear", "about": "One linear layer."}


def test_several_plugins_are_loaded_in_order(plugin, tmp_path, capsys):
    (tmp_path / "other.py").write_text(NET.replace('"linear"', '"other"'))
    main(["--plugin", plugin, "nets", "--plugin", str(tmp_path / "other.py")])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [*NETS, "linear", "other"]


def test_a_backbone_is_listed_with_the_first_line_about_it(plugin, capsys):
    main(["nets", "--plugin", plugin])
    assert capsys.readouterr().out.endswith("linear          One linear layer.\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nets", "--plugin"], "--plugin needs a file, as in --plugin mine.py"),
        (["nets", "--plugin="], "--plugin needs a file, as in --plugin mine.py"),
        (["--plugin", "nowhere.py", "nets"], "the plugin nowhere.py cannot be read (No such file or directory)"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_one_sentence(words, said, capsys):
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    assert said in capsys.readouterr().err


def test_every_command_takes_a_plugin_and_says_so(plugin, capsys):
    main(["help"])
    assert "--plugin FILE.py" in capsys.readouterr().out
    for name in COMMANDS:
        if name == "expert":  # whose settings depend on the task
            continue
        with pytest.raises(SystemExit) as end:
            main([name, "--plugin", plugin, "--help"])
        assert end.value.code == 0
        assert "--plugin FILE.py" in " ".join(capsys.readouterr().out.replace("│", "").split())


def test_the_short_completion_script_loads_the_rest_with_the_same_plugins(plugin, capsys):
    main(["completion", "bash", "--plugin", plugin])
    assert f"holdfast completion bash --full --plugin {shlex.quote(plugin)}" in capsys.readouterr().out


def a_job(folder: Path) -> Job:
    path = folder / "grid.toml"
    path.write_text('[[main]]\nsuite="toy"\nlearner="naive"\nbudget="smoke"\nfit.steps=2\norder=[["NorthEast"]]\n')
    (job,) = expand(read_grid(path, folder / "runs"), (), "cpu", cache=False)
    return job


def test_a_run_of_a_sweep_is_told_of_the_plugins_and_records_them_in_its_command(plugin, tmp_path):
    registry.load_plugin(plugin)
    job = a_job(tmp_path)
    assert job.words[:3] == ("run", "--plugin", plugin)
    assert Launch.of(job).plugins == (plugin,)


def test_a_process_of_a_sweep_loads_the_plugins_before_its_run(plugin, tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0\n")
    launch = {"name": "x", "words": ["run"], "run": a_job(tmp_path).spec.to_json(), "plugins": [plugin, str(broken)]}
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast.cli.sweep_process", "x"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin
    assert process.stderr
    with process, process.stdin:
        process.stdin.write(json.dumps(launch).encode() + b"\n")
        process.stdin.flush()
        assert f"the plugin {broken} fails when it is loaded" in process.stderr.read().decode()
        assert process.wait() == 2
