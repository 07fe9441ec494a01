"""Labels are true: budgets, presets and grids are what their names and pages say."""

import json
import re
import shlex
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.agent.configure import REUSE, apply
from holdfast.agent.plan import completed
from holdfast.agent.settings import flattened
from holdfast.cli.main import main
from holdfast.cli.run import parse_run
from holdfast.registry import LEARNERS, SUITES
from holdfast.runs.configure import BUDGETS, configure, read_plan
from holdfast.runs.plan import Plan
from holdfast.study.grid import read_grid
from holdfast.study.groups import RunResult, read_runs
from holdfast.study.jobs import expand
from holdfast.study.published import all_rows

ROOT = Path(__file__).parent.parent
OF_THE_PUBLICATION = sorted({row["method"].split()[0] for row in all_rows("panda3")})
PAPER_0_1 = {  # what the budget `paper` of version 0.1 set
    "toy": {"fit.steps": 1_000, "protocol.episodes": 20},
    "toy-continuous": {"fit.steps": 1_000, "protocol.episodes": 20},
    "panda3": {"fit.steps": 50_000, "protocol.name": "paper", "protocol.episodes": 20},
    "atari5": {
        "fit.steps": 8_000,
        "fit.learning_rate": 1e-3,
        "fit.schedule": "one-cycle",
        "protocol.name": "paper",
        "protocol.episodes": 1,
    },
}
PUBLISHED: dict[str, dict[str, Any]] = {  # preset `paper` with budget `published`
    "atari5": {
        "net.width": 128,
        "net.layers": 3,
        "net.heads": 4,
        "net.context": 20,
        "net.dropout": 0.1,
        "net.timesteps": "table",
        "fit.steps": 20_000,
        "fit.batch": 64,
        "fit.learning_rate": 3e-4,
        "fit.schedule": "constant",
        "fit.weight_decay": 1e-4,
        "fit.clip": 1.0,
        "fit.return_scale": 1556.0,
        "protocol.name": "paper",
        "protocol.episodes": 20,
        "data": "expert-10",
        "transitions": None,
        "subnets.keep": 0.5,
        "ewc:over": "all",
        "si:strength": 1.0,
        "cumulative:capacity": None,
        "affinity-a:routing.threshold": 10.0,
        "affinity-l:routing.threshold": 35.0,
    },
    "panda3": {
        "net.width": 128,
        "net.layers": 3,
        "net.heads": 1,
        "net.context": 20,
        "net.dropout": 0.1,
        "net.timesteps": "table",
        "fit.steps": 1_000_000,
        "fit.batch": 128,
        "fit.learning_rate": 1e-4,
        "fit.schedule": "constant",
        "fit.weight_decay": 1e-4,
        "fit.clip": 0.25,
        "fit.return_scale": 1000.0,
        "protocol.name": "paper",
        "protocol.episodes": 20,
        "transitions": 1_000_000,
        "subnets.keep": 0.33,
        "ewc:over": "last",
        "si:strength": 0.5,
        "cumulative:capacity": 5_000,
        "affinity-a:routing.threshold": 0.45,
        "affinity-l:routing.threshold": 25.0,
    },
}
EVERYWHERE = {
    "subnets.schedule": "constant",
    "subnets.reuse": True,
    "subnets.warm_start": 2.0,
    "subnets.noise": 0.02,
    "subnets.quantise_bits": 0,
    "routing.memory": 256,
    "routing.batches": 4,
    "routing.windows": 64,
    "ewc:strength": 50.0,
    "ewc:fisher_batches": 50,
    "si:damping": 0.1,
    "cumulative:mix": 0.5,
    "tsn-replaykl:routing.threshold": 0.25,
    "affinity-h:routing.threshold": 0.5,
    "affinity-h:routing.alpha": 0.7,
}


def flat(plan: Plan) -> dict[str, Any]:
    """The plan's settings by dotted name."""
    return {name.removeprefix("config."): value for name, value in flattened(asdict(plan))}


def said(words: str) -> Plan:
    """The plan that these words after `holdfast run` stand for."""
    found = shlex.split(words)
    return parse_run(found).plan


def result_of(plan: Plan) -> dict[str, Any]:
    """All that decides a run's result, but for its machine: not under which name a budget set it."""
    return {
        name: value for name, value in json.loads(json.dumps(flat(plan))).items() if name not in ("budget", "threads")
    }


@pytest.mark.parametrize("learner", OF_THE_PUBLICATION)
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_budget_published_and_the_preset_paper_are_the_publications_to_the_letter(name: str, learner: str) -> None:
    settings = flat(configure(name, learner, preset="paper", budget="published"))
    wanted = {}
    for path, value in {**EVERYWHERE, **PUBLISHED[name]}.items():
        whose, _, setting = path.rpartition(":")
        if whose in ("", learner) and setting in settings:
            wanted[setting] = value
    assert len(wanted) >= 15
    assert {setting: settings[setting] for setting in wanted} == wanted


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("name", [name for name in SUITES if SUITES[name].former_budgets])
def test_the_budget_that_is_gone_is_refused_with_words_that_give_the_same_plan(name: str, learner: str) -> None:
    with pytest.raises(holdfast.Mistake, match="no budget 'paper' any more") as refused:
        said(f"--suite {name} --learner {learner} --budget paper")
    words = str(refused.value).rpartition("the same run is ")[2]
    bare = replace(SUITES[name], budgets={"full": {}}).suite()
    before = apply(configure(name, learner, "paper", "full", suite=bare), PAPER_0_1[name])
    assert said(f"--suite {name} --learner {learner} {words}") == before


def test_the_kept_atari_records_of_the_budget_paper_are_what_its_new_words_give() -> None:
    kept = [result for result in read_runs(ROOT / "results" / "atari5" / "paper") if result.plan["budget"] == "paper"]
    assert {result.plan["learner"] for result in kept} == set(OF_THE_PUBLICATION)
    for result in kept:
        if result.name == f"{result.plan['learner']}-s0":
            words = SUITES["atari5"].former_budgets["paper"]
            assert result_of(read_plan(dict(result.plan))) == result_of(
                said(f"--suite atari5 --learner {result.plan['learner']} {words}")
            )


def test_the_old_budget_on_the_command_line_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["run", "--suite", "atari5", "--budget", "paper", "--dry"])
    assert end.value.code == 2
    assert "--budget full --protocol.name paper --data expert-10" in " ".join(capsys.readouterr().err.split())


def test_nothing_is_published_about_toy(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--suite", "toy", "--budget", "published", "--dry"])
    assert "nothing is published about toy" in capsys.readouterr().err


def test_an_old_folder_of_the_budget_paper_opens_goes_on_and_is_tabled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    small = ["--fit.steps", "4", "--order", "NorthEast", "SouthWest", "--no-tensorboard"]
    words = ["run", "--suite", "toy", "--learner", "naive", *shlex.split(SUITES["toy"].former_budgets["paper"]), *small]
    main([*words, "--evaluate", "none", "--out", str(out)])
    path = out / "config.json"
    record = json.loads(path.read_text())
    record["config"]["budget"] = "paper"
    path.write_text(json.dumps(record))

    opened, learner = holdfast.reopen(out, "cpu")
    assert learner.learned == opened.names
    main([*words, "--out", str(out)])  # evaluates what was only learned
    main(["run", "--config", str(out), "--device", "cpu"])
    main(["show", str(out)])
    main(["table", str(out)])
    assert "naive" in capsys.readouterr().out
    assert json.loads(path.read_text()) == record


def test_the_help_of_the_budget_names_those_there_are_and_calls_none_as_published(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--suite", "toy", "--learner", "naive", "--help"])
    text = re.sub(r"[\s│]+", " ", capsys.readouterr().out)
    about = text[text.index("--budget STR") :]
    about = about[: about.index("--seed")]
    assert all(f"{budget} (" in about for budget in BUDGETS)
    assert "paper" not in about
    assert "as published" not in text.replace("paper: neither, as published for Panda", "")  # which is so


def kept(name: str) -> dict[str, dict[str, Any]]:
    """What decides the result of every kept record of a suite, by folder."""
    paths = sorted((ROOT / "results" / name).rglob("config.json"))
    plans = {str(path.parent.relative_to(ROOT)): json.loads(path.read_text())["config"] for path in paths}
    return {path: result_of(read_plan(completed(plan))) for path, plan in plans.items()}


def plans_of(name: str, *parts: str) -> list[Plan]:
    """The runs of these parts of a suite's grid."""
    return [job.spec.plan for job in expand(read_grid(ROOT / "grids" / f"{name}.toml"), parts, "cuda", False)]


@pytest.mark.parametrize("name", ["panda3", "atari5"])
def test_every_kept_record_is_a_run_of_its_suites_grid(name: str) -> None:
    ours = [result_of(plan) for plan in plans_of(name)]
    records = kept(name)
    assert len(records) > 40
    assert [path for path, plan in records.items() if plan not in ours] == []


@pytest.mark.parametrize("name", ["panda3", "atari5"])
def test_the_parts_of_the_published_tables_set_what_the_publication_set(name: str) -> None:
    chosen = {"panda3": {"treatment": "paper"}, "atari5": {"subnets.outside": "frozen", "protocol.name": "paper"}}
    parts = {"panda3": ("main", "single", "auxiliary"), "atari5": ("main", "single", "thresholds", "auxiliary")}
    of_learners = {**EVERYWHERE, **PUBLISHED[name], **chosen[name]}
    ours = ("fit.steps", "fit.learning_rate", "fit.schedule", "protocol.episodes", "transitions")  # budget `full`
    varied = ("routing.threshold", "routing.alpha")
    if name == "panda3":
        ours = (*ours, "protocol.name")
    for plan in plans_of(name, *parts[name]):
        assert plan.budget == "full"
        settings = flat(plan)
        for path, value in of_learners.items():
            whose, _, setting = path.rpartition(":")
            if whose in ("", plan.learner) and setting in settings and setting not in (*ours, *varied):
                assert settings[setting] == value, (plan.learner, setting)


def test_the_speeds_that_the_readme_names_are_those_of_the_page_on_speed() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    least, most = re.findall(r"is ([\d.]+) \(two CPU cores\) to (\d+) \(one H200\) times as fast", readme)[0]
    page = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    assert f"to {most} times as fast on Atari" in page
    assert f"on two cores {least} to " in page


def row_of(page: str, mark: str, start: str) -> dict[str, str]:
    """A row of a table on a page of results, by the names of its columns."""
    text = (ROOT / "docs" / "results" / page).read_text(encoding="utf-8")
    lines = text[text.index(f"<!-- {mark}: begin -->") :].splitlines()
    names, row = (line.strip("| ").split(" | ") for line in (lines[1], next(filter(re.compile(start).match, lines))))
    return dict(zip(names, row, strict=True))


def test_the_rows_of_the_readme_are_those_of_the_results_on_panda() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    numbers = r"([\d.]+) \| ([\d.]+) \| (\d) \| ([\d.]+)"
    rows = re.findall(rf"^\| `([\w-]+)((?: --preset paper)?)` \|[^|]+\| {numbers} \|$", readme, re.MULTILINE)
    assert len(rows) == 6
    for learner, preset, *told in rows:
        if learner == "affinity-l" and not preset:
            setting = f"affinity-l tau=auto preset=holdfast subnets.private={REUSE['subnets.private']}"
            row = row_of("reuse.md", "panda", rf"\| {re.escape(setting)} \|")
        else:
            row = row_of("panda3.md", "table", rf"\| {learner}( | .*(equal|private|=25) )\|")
        gap, forgotten, copies, size = (float(row[name].split()[0]) for name in ("AvgGap", "AvgF", "copies", "MB"))
        assert [round(gap, 2), round(forgotten, 2)] == pytest.approx([float(told[0]), float(told[1])], abs=0.006)
        assert [copies, round(size, 1)] == [float(told[2]), float(told[3])]


def test_how_many_episodes_are_stepped_together_does_not_tell_groups_apart():
    one, other = (RunResult("a", {"protocol": {"lanes": lanes, "episodes": 4}}, {}, None) for lanes in (5, 10))
    assert one.settings == other.settings
    assert one.settings["protocol.episodes"] == 4
