"""A bad value is refused where it is said, in one sentence, before anything is trained, built or written."""

import math
from dataclasses import fields, replace
from typing import Annotated, get_args, get_origin, get_type_hints

import numpy as np
import pytest

import holdfast
from holdfast.agent.configure import apply
from holdfast.benchmarks.atari.expert import AtariExpertConfig as Training
from holdfast.benchmarks.atari.ppo import Ppo
from holdfast.benchmarks.atari.recording import RecordingConfig
from holdfast.benchmarks.panda.reach import ReachConfig as Reaching
from holdfast.benchmarks.panda.tune import TuneConfig as Tuning
from holdfast.cli.main import main
from holdfast.data.episodes import Dataset, Episode
from holdfast.data.validation import Range, shown, validated
from holdfast.errors import Mistake
from holdfast.registry import LEARNERS
from holdfast.runs.configure import configure, learner_for, read_plan
from holdfast.runs.options import Options
from holdfast.runs.plan import Plan
from holdfast.runs.run import run
from holdfast.study.engines import Resources
from holdfast.tasks.interface import Discrete, Interface
from holdfast.tasks.suite import Suite
from holdfast.tasks.task import Task
from tests.tiny import QUIET, pixel_suite, tiny_learner, tiny_suite


def settings_of(thing: object, prefix: str = "") -> dict[str, object]:
    """The dotted names of all settings of a plan, with their declared types."""
    hints = get_type_hints(type(thing), include_extras=True)
    found: dict[str, object] = {}
    for field in fields(thing):  # type: ignore[arg-type]
        value = getattr(thing, field.name)
        if hasattr(value, "__dataclass_fields__"):
            found |= settings_of(value, "" if field.name == "config" else f"{prefix}{field.name}.")
        else:
            found[prefix + field.name] = hints[field.name]
    return found


def bare(hint: object) -> tuple[object, ...]:
    """The types that a hint names."""
    hint = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return get_args(hint) or (hint,)


def refused(plan: Plan, name: str, value: object) -> str:
    with pytest.raises(Mistake) as said:
        apply(plan, {name: value})
    sentence = str(said.value)
    assert name in sentence
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize("learner", LEARNERS)
def test_every_number_among_the_settings_must_be_one_and_finite(learner):
    plan = configure("toy", learner)
    numbers = {name: bare(hint) for name, hint in settings_of(plan).items() if {int, float} & {*bare(hint)}}
    assert len(numbers) > 15
    for name, kinds in numbers.items():
        for value in (math.nan, math.inf, -math.inf, "300", True, [1], 10**400):
            refused(plan, name, value)
        if int in kinds:
            assert "a whole number" in refused(plan, name, 3.5)


@pytest.mark.parametrize("learner", LEARNERS)
def test_every_bound_among_the_settings_holds(learner):
    plan = configure("toy", learner)
    for name, hint in settings_of(plan).items():
        for bounds in [note for note in get_args(hint) if isinstance(note, Range)]:
            outside = [bounds.over, bounds.under]
            outside += [bound + step for bound, step in ((bounds.least, -1), (bounds.most, 1)) if bound is not None]
            for value in [value for value in outside if value is not None]:
                refused(plan, name, int(value) if int in bare(hint) else value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fit.schedule", "linear"),
        ("fit.whole", 1),
        ("protocol.name", 3),
        ("order", "NorthEast"),
        ("subnets.exclude", "timestep"),
        ("net", {"width": 3}),
        ("fit.stepps", 3),
        ("budget", "full"),
        ("learner", "ewc"),
    ],
)
def test_values_of_a_wrong_kind_and_unknown_names_are_refused(name, value):
    refused(configure("toy", "tsn-core"), name, value)


@pytest.mark.parametrize(
    ("name", "value"), [("sources", 2), ("far_source", "last"), ("new_copy", "last"), ("noise", 0.1)]
)
def test_a_setting_that_only_routing_reads_is_refused_without_it(name, value):
    setting = {f"subnets.{name}": value}
    with pytest.raises(Mistake, match=f"^a learner without routing does not read subnets.{name}: leave it out$"):
        apply(configure("toy", "tsn-core"), setting)
    assert getattr(apply(configure("toy", "affinity-l", preset="paper"), setting).config.subnets, name) == value


@pytest.mark.parametrize("learner", ["tsn-replaykl", "random-routing", "independent"])
def test_a_source_for_far_tasks_is_refused_where_no_threshold_is_automatic(learner):
    with pytest.raises(Mistake, match=r"^routing without an automatic threshold does not read subnets.far_source"):
        apply(configure("toy", learner), {"subnets.far_source": "last"})


def test_what_a_new_copy_begins_with_is_refused_where_none_is_ever_opened():
    shared = apply(configure("toy", "affinity-l"), {"routing.threshold": "auto"})
    for new in ({}, {"subnets.new": 0.0}):
        with pytest.raises(Mistake, match=r"^subnets.new_copy is about further copies, but no copy is ever full"):
            apply(shared, {"subnets.new_copy": "last", **new})
    for other in ({"subnets.new": "planned"}, {"subnets.schedule": "equal_remaining"}, {"routing.threshold": 25.0}):
        assert apply(shared, {"subnets.new_copy": "last", **other}).config.subnets.new_copy == "last"


@pytest.mark.parametrize(
    "value",
    [np.eye(3), np.zeros((2, 2, 2)), [np.eye(2)], "two\nlines", "a  b"],
    ids=["2d", "3d", "in a list", "\\n", "  "],
)
def test_a_value_in_a_message_is_on_one_line(value):
    said = shown(value)
    assert said.splitlines() == [said]
    assert said == repr(value) or isinstance(value, np.ndarray | list)


def test_an_unknown_setting_is_answered_with_a_near_one():
    with pytest.raises(Mistake, match=r"no learner has a setting 'fit.stepps', did you mean fit\.steps\?"):
        holdfast.learner("naive", tiny_suite(), settings={"fit.stepps": 3})
    with pytest.raises(Mistake, match=r"the learner naive has no setting 'subnets\.keep'"):
        holdfast.learner("naive", tiny_suite(), settings={"subnets.keep": 0.5})
    with pytest.raises(Mistake, match="must be a dict"):
        holdfast.learner("naive", tiny_suite(), settings=[("fit.steps", 3)])  # type: ignore[arg-type]


def test_numpy_numbers_and_lists_become_plain_ones():
    plan = apply(
        configure("toy", "naive"), {"fit.steps": np.int64(7), "fit.clip": np.float32(0.5), "order": ["NorthEast"]}
    )
    assert (type(plan.config.fit.steps), type(plan.config.fit.clip)) == (int, float)
    assert plan.order == ("NorthEast",)
    assert type(apply(plan, {"fit.clip": 2}).config.fit.clip) is float


def test_a_bound_is_part_of_its_range_or_not_as_it_says():
    assert validated("x", 1, Annotated[float, Range(over=0, most=1)]) == 1.0
    for value in (0, 1.5):
        with pytest.raises(Mistake, match="x must be over 0 and at most 1, got"):
            validated("x", value, Annotated[float, Range(over=0, most=1)])


@pytest.mark.parametrize(
    "config",
    [Options(), Resources(), Ppo(), RecordingConfig(), Training("pong"), Tuning(), Reaching()],
    ids=lambda config: f"{type(config).__module__}.{type(config).__name__}",
)
def test_every_number_in_other_configurations_must_be_finite_too(config):
    numbers = [name for name, hint in settings_of(config).items() if {int, float} & {*bare(hint)}]
    assert numbers
    for name in [name for name in numbers if "." not in name]:
        with pytest.raises(Mistake, match=name):
            replace(config, **{name: math.nan})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--protocol.first-seed -1", "protocol.first_seed must be at least 0"),
        ("--protocol.lanes 1000000", "protocol.lanes must be at least 1 and at most 4,096"),
        ("--protocol.episodes 10000000000", "protocol.episodes"),
        ("--threads 100000", "threads must be at least 1 and at most 1,024"),
        ("--net.width 1000000000", "net.width must be at least 1 and at most 65,536"),
        ("--net.layers 1000000", "net.layers"),
        ("--net.context 100000000", "net.context"),
        ("--fit.steps 1000000000000", "fit.steps"),
        ("--transitions 100000000000", "transitions"),
        ("--subnets.noise nan", "subnets.noise must be a finite number, got nan"),
        ("--fit.clip inf", "fit.clip must be a finite number, got inf"),
        ("--routing.threshold inf", "routing.threshold must be a finite number or auto"),
        ("--fit.return-scale 0", "fit.return_scale must be over 0"),
        ("--net.width 60000 --net.layers 100", "GB to train"),
        ("--fit.batch 1000000 --net.width 8192", "GB to train"),
        ("--target Nowhere=3", "no task 'Nowhere'"),
        ("--target NorthEast=nan", "with a finite number"),
        ("--target NorthEast", "TASK=VALUE"),
        ("--target NorthEast=1 NorthEast=2", "NorthEast twice"),
    ],
)
def test_a_bad_word_is_one_sentence_and_nothing_is_written(words, said, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Task, "dataset", property(lambda _: pytest.fail("data was made")))
    with pytest.raises(SystemExit) as stop:
        main(["run", "--suite", "toy", "--budget", "smoke", *words.split(), "--out", str(tmp_path / "run")])
    printed = capsys.readouterr().err
    assert stop.value.code == 2
    assert printed.startswith("holdfast: ")
    assert printed.count("\n") == 1
    assert said in printed
    assert not (tmp_path / "run").exists()


def test_what_fits_into_the_machine_is_not_refused(monkeypatch):
    found = tiny_suite()
    plan = configure("toy", "naive", suite=found)
    monkeypatch.setattr("holdfast.agent.devices.memory_of", lambda device: 5_000_000)
    learner_for(plan, found, "cpu")
    monkeypatch.setattr("holdfast.agent.devices.memory_of", lambda device: 50_000)
    with pytest.raises(Mistake, match="GB to train"):
        learner_for(plan, found, "cpu")


def test_a_name_where_a_suite_or_a_learner_belongs_is_said_so(tmp_path):
    with pytest.raises(Mistake, match=r"a holdfast.Suite is needed, got 'toy': holdfast.suite\('toy'\) builds"):
        holdfast.learner("naive", "toy")  # type: ignore[arg-type]
    with pytest.raises(Mistake, match=r"a holdfast.Suite is needed, got 'toy'"):
        run("toy", tiny_learner("naive"), tmp_path / "run", QUIET)  # type: ignore[arg-type]
    with pytest.raises(Mistake, match="a learner is needed, got 'naive'"):
        run(tiny_suite(), "naive", tmp_path / "run", QUIET)  # type: ignore[arg-type]
    for wrong in (3, None, ["naive"]):
        with pytest.raises(Mistake, match="there is no learner"):
            holdfast.learner(wrong, tiny_suite())  # type: ignore[arg-type]
        with pytest.raises(Mistake, match="there is no suite"):
            holdfast.suite(wrong)  # type: ignore[arg-type]
    with pytest.raises(Mistake, match="there is no device None"):
        holdfast.learner("naive", tiny_suite(), device=None)  # type: ignore[arg-type]
    with pytest.raises(Mistake, match="must be a list of tasks"):
        holdfast.suite("toy", "NorthEast")
    assert not (tmp_path / "run").exists()


def test_tasks_and_suites_of_wrong_parts_are_refused():
    task = tiny_suite().tasks[0]
    for part, value in (
        ("name", 3),
        ("interface", (4,)),
        ("target", "high"),
        ("target", True),
        ("load", []),
        ("environments", []),
    ):
        with pytest.raises(Mistake, match=part):
            replace(task, **{part: value})
    for tasks in ("toy", [task, "NorthEast"], task):
        with pytest.raises(Mistake, match=r"must be a list of holdfast\.Task"):
            Suite("mine", tasks)  # type: ignore[arg-type]
    assert Suite("mine", [task]).tasks == (task,)  # type: ignore[arg-type]
    for wrong in ({"observation": "4"}, {"observation": (4.5,)}, {"horizon": "20"}, {"actions": 5}):
        with pytest.raises(Mistake, match="interface"):
            replace(task.interface, **wrong)
    with pytest.raises(Mistake, match="vocabulary must be a whole number"):
        Discrete(3, 4.0)  # type: ignore[arg-type]


def test_a_loader_that_returns_a_list_is_said_so():
    task = tiny_suite().tasks[0]
    with pytest.raises(Mistake, match=r"must return a holdfast.Dataset, not a list; Dataset.of\(episodes\) makes one"):
        replace(task, load=lambda: list(task.dataset)).dataset  # type: ignore[arg-type, return-value] # noqa: B018


def test_bad_data_of_a_later_task_is_found_before_the_first_is_trained(tmp_path, monkeypatch):
    good = tiny_suite()
    monkeypatch.setattr("holdfast.learners.dense.DenseLearner.train", lambda *_: pytest.fail("a task was trained"))
    for load in (list, lambda: Dataset.of([Episode(np.zeros((3, 9)), np.zeros(3, int), np.zeros(3))])):
        bad = replace(good, tasks=(*good.tasks[:2], replace(good.tasks[2], load=load)))
        with pytest.raises(Mistake, match=f"the data of {good.names[2]} cannot be used"):
            run(bad, tiny_learner("naive", bad), tmp_path / "run", QUIET)


def test_a_trained_run_is_evaluated_without_its_data(tmp_path):
    found = tiny_suite()
    run(found, tiny_learner("affinity-l", found), tmp_path / "run", replace(QUIET, evaluate="none"))
    away = replace(found, tasks=tuple(replace(task, load=lambda: Dataset.of([])) for task in found.tasks))
    again, learner = holdfast.reopen(tmp_path / "run", suite=away)
    assert run(again, learner, tmp_path / "run", QUIET).metrics()["AvgF"] == 0.0


def test_frames_that_are_not_bytes_are_no_data():
    task = pixel_suite().tasks[0]
    frames = replace(task.dataset, observations=task.dataset.observations / np.float32(255))
    with pytest.raises(Mistake, match="frames must be uint8 from 0 to 255, got float32"):
        task.interface.check(frames)
    with pytest.raises(Mistake, match="observations must be numbers, got complex"):
        Interface((2,), Discrete(2, 2), 9).check_dtype(np.dtype(complex))


def test_arrays_of_a_dataset_may_be_lists_and_must_be_numbers():
    made = Dataset([[0.0], [1.0]], [0, 1], [0.5, 1], [2])  # type: ignore[arg-type]
    assert (len(made), made.steps) == (1, 2)
    for arrays in ((["a", "b"], [0, 1], [0.5, 1], [2]), ([[0.0], [1.0]], [0, 1], [0.5, 1], [1.5, 0.5])):
        with pytest.raises(Mistake):
            Dataset(*arrays)  # type: ignore[arg-type]


@pytest.mark.parametrize("learner", ["naive", "affinity-h"])
def test_a_recorded_plan_with_wrong_values_is_refused(learner):
    from dataclasses import asdict

    record = asdict(configure("toy", learner, budget="smoke"))
    assert read_plan(record) == configure("toy", learner, budget="smoke")
    for name, value in (
        ("seed", "0"),
        ("threads", 10**6),
        ("protocol", {**record["protocol"], "first_seed": -1}),
        ("protocol", 3),
        ("config", {**record["config"], "fit": None}),
        ("config", {**record["config"], "net": {**record["config"]["net"], "width": "wide"}}),
        ("target", ["NorthEast"]),
        ("target", 3),
        ("order", "NorthEast"),
        ("learner", ["naive"]),
    ):
        with pytest.raises(Mistake):
            read_plan({**record, name: value})


def test_a_task_of_a_users_own_is_checked_like_ours():
    with pytest.raises(Mistake, match="the target of Mine must be a finite number, got nan"):
        Task("Mine", Interface((2,), Discrete(2, 2), 9), math.nan, list, list)  # type: ignore[arg-type]
