"""`holdfast expert` makes or scores the expert of a task, and says in one sentence why it cannot."""

import json
import sys
from pathlib import Path

import pytest

from holdfast.benchmarks.atari.actor import ActorCritic, save_actor
from holdfast.cli.main import main
from tests.test_mistakes import command

PANDA = ["panda/reach", "panda/push", "panda/pick-and-place"]


def test_help_names_the_tasks(capsys):
    main(["expert", "--help"])
    said = capsys.readouterr().out
    assert all(task in said for task in [*PANDA, "atari/GAME"])


@pytest.mark.parametrize("task", ["push", "panda/", "panda/drawer", "atari", "atari/", "walk/far"])
def test_a_task_without_an_expert_is_said_so(task, capsys):
    assert f"there is no expert of {task!r}; there are panda/reach" in command(capsys, "expert", task)


@pytest.mark.parametrize(
    ("package", "task", "extra"),
    [
        ("ale_py", "atari/breakout", "ale-py is not installed: pip install 'holdfast[atari]'"),
        ("panda_gym", "panda/reach", "panda-gym is not installed: pip install 'holdfast[panda]'"),
        ("panda_gym", "panda/push", "panda-gym is not installed: pip install 'holdfast[panda]'"),
        ("cma", "panda/push", "cma is not installed: pip install 'holdfast[tune]'"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(package, task, extra, capsys, monkeypatch):
    if package == "cma":
        pytest.importorskip("panda_gym")
    monkeypatch.setitem(sys.modules, package, None)
    assert extra in command(capsys, "expert", task)


def test_an_interrupted_expert_does_not_promise_to_go_on(capsys, monkeypatch):
    def interrupt(*words: object) -> None:
        raise KeyboardInterrupt

    for name, promise in (("expert", "starts over; with --init"), ("run", "resumes from here")):
        monkeypatch.setattr(f"holdfast.cli.{name}.{name}_command", interrupt)
        with pytest.raises(SystemExit, match="130"):
            main([name])
        assert f"interrupted; the same command {promise}" in capsys.readouterr().err


@pytest.mark.parametrize("task", PANDA)
def test_without_generations_an_expert_is_only_scored(task, capsys, tmp_path, monkeypatch):
    pytest.importorskip("panda_gym")
    monkeypatch.chdir(tmp_path)
    main(["expert", task, "--generations", "0", "--scored", "3"])
    said = capsys.readouterr().out
    assert said.startswith("mean -")
    assert "success 100.0%" in said
    assert not list(tmp_path.iterdir())


def test_a_script_is_tuned_and_its_numbers_are_said(capsys):
    pytest.importorskip("panda_gym")
    pytest.importorskip("cma")
    main(["expert", "panda/push", "--generations", "1", "--population", "4", "--episodes", "1", "--scored", "1"])
    said = capsys.readouterr().out
    assert "generation 0: best" in said
    assert "    behind: float = 0.0" in said


def test_the_network_of_reach_is_trained_and_written(capsys, tmp_path):
    pytest.importorskip("panda_gym")
    out = tmp_path / "made" / "reach.npz"
    sizes = ["--generations", "1", "--episodes", "2", "--updates", "2", "--scored", "1"]
    main(["expert", "panda/reach", "--out", str(out), *sizes])
    assert out.exists()
    assert f"wrote {out}\nmean -" in capsys.readouterr().out


TINY = ["--envs", "2", "--steps", "8", "--minibatch", "16", "--lanes", "2", "--temperatures", "1.0"]


def test_an_atari_expert_is_trained_and_leaves_its_checkpoint(capsys, tmp_path):
    pytest.importorskip("ale_py")
    main(["expert", "atari/breakout", "--seconds", "1", "--reserve", "0", "--out", str(tmp_path), *TINY])
    assert "breakout: trained" in capsys.readouterr().out
    assert json.loads((tmp_path / "breakout.json").read_text())["config"]["ppo"]["envs"] == 2
    assert (tmp_path / "breakout.safetensors").exists()


def test_mistakes_with_an_atari_expert_are_said_and_nothing_is_written(capsys, tmp_path):
    pytest.importorskip("ale_py")
    other, broken, out = tmp_path / "other.safetensors", tmp_path / "broken.safetensors", tmp_path / "out"
    save_actor(ActorCritic(18), 0, other)
    broken.write_bytes(b"no weights")

    def said(*words: str) -> str:
        return command(capsys, "expert", "atari/breakout", "--out", str(out), *words)

    assert "there is no Atari game 'nowhere'" in command(capsys, "expert", "atari/nowhere", "--out", str(out))
    assert "there is no checkpoint nowhere" in said("--init", "nowhere")
    assert "atari/breakout already names the game: leave --game out" in said("--game", "pong")
    for checkpoint in (other, broken):
        assert f"{checkpoint} is not a checkpoint of a network with 4 actions" in said("--init", str(checkpoint))
    assert "must be between 0 and --seconds" in said("--reserve", "1000")
    assert "needs a checkpoint" in said("--reserve", "540")
    assert "must be a multiple of minibatch" in said("--minibatch", "7")
    assert "must be at least 1" in said("--epochs", "0")
    assert "must lie in 1..27000" in said("--horizon", "0")
    assert "temperatures (at most one per lane), each greater than 0" in said("--temperatures", "0")
    assert not out.exists()
    Path(out).write_text("")
    assert "cannot be used as a folder" in said()


@pytest.mark.parametrize("flag", ["--scored", "--episodes"])
def test_mistakes_with_a_panda_expert_are_said(flag, capsys):
    for task in PANDA:
        assert "at least 1" in command(capsys, "expert", task, flag, "0")
