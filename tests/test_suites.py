"""A suite is described once, its tasks are made once, and one network fits all of them."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.cli.main import main
from holdfast.errors import MissingData, Mistake
from holdfast.registry import SUITES
from holdfast.tasks.data_choice import DataChoice
from holdfast.tasks.suite import RecordedData, Suite, SuiteSpec
from holdfast.tasks.task import Task
from tests.tiny import QUIET, tiny_suite

TOY = ["--suite", "toy", "--learner", "naive", "--budget", "smoke", "--order", "NorthEast", "--fit.steps", "3"]
SMALL = [*TOY, "--no-tensorboard", "--device", "cpu", "--quiet"]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """The amounts and kinds of data with which the tasks of `toy` are made."""
    asked: list[tuple[Any, Any]] = []
    spec = SUITES["toy"]

    def tasks(choice: DataChoice) -> Any:
        asked.append((choice.transitions, choice.data))
        return spec.tasks(choice)

    monkeypatch.setitem(SUITES.added, "toy", replace(spec, tasks=tasks))
    return asked


def test_a_command_makes_the_tasks_once(made: list[Any], tmp_path: Path) -> None:
    out = str(tmp_path / "run")
    for words in (["run", *SMALL, "--out", out], ["run", *SMALL, "--out", out], ["evaluate", out, "--quiet"]):
        main(words)
        assert made == [(1_000, None)]
        made.clear()


@pytest.mark.parametrize("words", [["suites"], ["suites", "--json"], ["run", *SMALL, "--help"], ["expert", "--help"]])
def test_what_is_said_of_a_suite_is_known_without_its_tasks(words: list[str], made: list[Any]) -> None:
    with suppress(SystemExit):  # after a help text
        main(words)
    assert made == []


def test_a_budgets_data_is_made_once_for_learner_and_run(made: list[Any], tmp_path: Path) -> None:
    suite = holdfast.suite("toy", ["NorthEast"])
    made.clear()
    learner = holdfast.learner("naive", suite, budget="smoke", settings={"fit.steps": 3}, device="cpu")
    holdfast.run(suite, learner, tmp_path / "run", QUIET)
    assert made == [(1_000, None)]


def test_data_that_was_not_asked_for_is_the_budgets() -> None:
    atari = holdfast.suite("atari5", ["Boxing"], transitions=1_000)
    assert atari.fixed == {"transitions": 1_000}
    other = DataChoice(transitions=1_000, data="expert-100")
    assert atari.with_data(other).choice == other
    with pytest.raises(Mistake, match="built with transitions = 1000, not 2000"):
        atari.with_data(DataChoice(transitions=2_000, data="expert-100"))
    own = replace(atari, tasks=atari.tasks)
    assert own.fixed == {"transitions": 1_000, "demonstrations": None, "data": "expert-10"}
    with pytest.raises(Mistake, match="built with data = expert-10, not expert-100"):
        own.with_data(other)


def test_every_task_has_the_longest_horizon() -> None:
    short, other = tiny_suite().tasks[:2]
    long = replace(other, interface=replace(other.interface, horizon=70))
    suite = Suite("mine", [short, long])
    assert [task.interface.horizon for task in suite.tasks] == [70, 70]
    assert suite.ordered([short.name]).interface.horizon == 70
    assert suite.tasks[1] is long
    assert short.interface.horizon == 20


@pytest.mark.parametrize("name", SUITES)
def test_a_description_makes_the_tasks_that_it_names(name: str) -> None:
    spec = SUITES[name]
    suite = spec.suite()
    assert (suite.name, tuple(suite.names), suite.spec) == (name, spec.order, spec)
    assert {task.interface.horizon for task in suite.tasks} == {suite.interface.horizon}
    assert spec.about.endswith(".")


def toy_tasks(choice: DataChoice) -> list[Task]:
    return list(tiny_suite().tasks[:2])


def spec(**parts: Any) -> SuiteSpec:
    return SuiteSpec(**{"name": "mine", "about": "", "order": ("NorthEast", "SouthWest"), "tasks": toy_tasks, **parts})


@pytest.mark.parametrize(
    ("part", "value", "sentence"),
    [
        ("name", 3, "a suite's name must consist of letters"),
        ("name", "../up", "a suite's name must consist of letters"),
        ("about", None, "mine: about must be a string, got None"),
        ("order", "NorthEast", "mine: order must be a list, each entry a string"),
        ("tasks", [], r"mine: tasks must be a function, got \[\]"),
        ("presets", [], "mine: presets must be a dictionary"),
        ("presets", {"paper": 3}, r"mine: presets\['paper'\] must be a dictionary, got 3"),
        ("budgets", {"smoke": []}, r"mine: budgets\['smoke'\] must be a dictionary"),
        ("protocols", {"x": 1}, r"mine: protocols\['x'\] must be a dictionary"),
        ("former_budgets", 1, "mine: former_budgets must be a dictionary"),
        ("transitions", 0, "mine: transitions must be at least 1"),
        ("transitions", "many", "mine: transitions must be a whole number"),
        ("demonstrations", 0, "mine: demonstrations must be at least 1"),
        ("data", "minari", "mine: data must be a list"),
        ("recorded", print, "mine: recorded must be a RecordedData"),
        ("experts", print, "mine: experts must be a Experts"),
        ("view", 3, "mine: view must be a function"),
        ("ends", (2, 3), "mine: ends must be numbers of tasks from 1 to 2"),
    ],
)
def test_a_description_of_wrong_parts_is_refused(part: str, value: Any, sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        spec(**{part: value})


def test_recorded_data_of_wrong_parts_is_refused() -> None:
    with pytest.raises(Mistake, match=r"recorded\.check must be a function, got 3"):
        RecordedData(lambda *_: [], 3, list)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"order": ("SouthWest", "NorthEast")}, "is SouthWest, NorthEast, but its function builds NorthEast"),
        ({"tasks": lambda choice: "toy"}, "must be a list of holdfast.Task, got 'toy'"),
        ({"tasks": lambda choice: []}, "the suite mine has no tasks"),
    ],
)
def test_a_suite_that_makes_other_tasks_than_it_names_is_refused(parts: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        spec(**parts).suite()


def test_another_kind_of_data_is_one_of_those_that_there_are() -> None:
    with pytest.raises(Mistake, match="has only one kind of data: leave out --data other"):
        spec().suite(choice=DataChoice(data="other"))
    with pytest.raises(Mistake, match="has no data 'other'; it has usual, more"):
        spec(data=("usual", "more")).suite(choice=DataChoice(data="other"))
    assert spec(data=("usual", "more")).suite().choice.data == "usual"


def test_data_is_counted_in_demonstrations_or_in_transitions_as_the_suite_does() -> None:
    with pytest.raises(Mistake, match="mine does not count its data in demonstrations: leave out --demonstrations"):
        spec(transitions=200).suite(choice=DataChoice(demonstrations=5))
    counted = spec(demonstrations=100)
    with pytest.raises(Mistake, match="mine counts its data in demonstrations: use --demonstrations instead"):
        counted.suite(choice=DataChoice(transitions=5))
    assert counted.suite().choice == DataChoice(demonstrations=100)
    assert counted.suite(choice=DataChoice(demonstrations=5)).choice == DataChoice(demonstrations=5)
    for count in (0, 10**6, "many"):
        with pytest.raises(Mistake, match="demonstrations must be"):
            DataChoice(demonstrations=count)  # type: ignore[arg-type]


def test_recorded_data_that_is_missing_is_made_when_it_is_first_used() -> None:
    disk: list[str] = []
    told: list[tuple[str, int, int]] = []

    def load(task: Task) -> Any:
        if task.name not in disk:
            raise MissingData("not there")
        return task.dataset

    def tasks(choice: DataChoice) -> list[Task]:
        return [replace(task, load=lambda task=task: load(task)) for task in toy_tasks(choice)]

    def build(suite: Suite, report: Any, rebuild: bool) -> list[str]:
        assert not rebuild
        disk.extend(suite.names)
        report(suite.names[0], 1, 1)
        return suite.names

    recorded = spec(tasks=tasks, recorded=RecordedData(build, lambda *_: [], list))
    with pytest.raises(MissingData):
        recorded.suite(report=None).tasks[0].load()
    suite = recorded.suite(report=lambda *said: told.append(said))
    assert disk == []
    suite.load()
    suite.load()
    assert disk == ["NorthEast", "SouthWest"]
    assert told == [("NorthEast", 1, 1), ("SouthWest", 1, 1)]
    with pytest.raises(Mistake, match="toy generates its data when it is used"):
        SUITES["toy"].recorded_data()
