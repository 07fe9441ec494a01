"""The page tells what the runs say, in one file, to everyone, and nothing in it can be made to act."""

import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from holdfast.agent.routes import route_reason
from holdfast.cli.main import main
from holdfast.data.normaliser import Normaliser
from holdfast.errors import Mistake
from holdfast.evaluation.matrix import CELLS
from holdfast.learners.learner import new_net
from holdfast.nets.policy import Policy
from holdfast.nets.transformer import DtConfig
from holdfast.registry import SUITES
from holdfast.runs.configure import configure
from holdfast.runs.run import reopen, run
from holdfast.study.export import export_runs
from holdfast.study.figures import curves, front, heat
from holdfast.study.figures.drawing import FORMATS, typeset
from holdfast.study.figures.study import Study, read_study
from holdfast.study.page import compose
from holdfast.study.page.compose import report
from holdfast.study.page.markup import Html, element, table
from holdfast.study.page.story import intervals_overlap, story, what_was_done
from holdfast.study.videos import MOST, film_task
from tests.test_results import a_run
from tests.tiny import QUIET, tiny_learner, tiny_suite

KEPT = Path(__file__).parent.parent / "results" / "atari5" / "noop"
HOSTILE = "<script>window.hit=1</script>\"'><img src=x onerror=window.hit=1>&amp;$x$"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of a routed learner, one without choices in two seeds, one that forgets, and the reference."""
    root, suite = tmp_path_factory.mktemp("page") / "runs", tiny_suite("toy-continuous")
    near = {"routing__threshold": 1e9}  # every task is near enough
    for name, settings in (("affinity-l", near), ("tsn-core", {}), ("naive", {}), ("single", {})):
        run(suite, tiny_learner(name, suite, **settings), root / name, QUIET)
    run(suite, tiny_learner("tsn-core", suite, seed=1), root / "tsn-core-1", QUIET)
    return root


@pytest.fixture(scope="module")
def found(runs: Path) -> Study:
    return read_study([runs])


@pytest.fixture(scope="module")
def page(runs: Path) -> Path:
    """The page of these runs, with videos."""
    return report([runs], runs.parent / "report.html").page


@pytest.fixture(scope="module")
def exported(runs: Path) -> Path:
    """The same runs without weights and events."""
    export_runs([runs], runs.parent / "exported")
    return runs.parent / "exported"


@pytest.fixture(scope="module")
def hostile(exported: Path) -> Path:
    """The page of runs in which a task has a name that wants to be markup."""
    place = exported.parent / "hostile"
    shutil.copytree(exported, place)
    for path in place.rglob("*.json"):
        path.write_text(path.read_text().replace("NorthEast", json.dumps(HOSTILE)[1:-1]))
    report([place], exported.parent / "hostile.html")
    return exported.parent / "hostile.html"


class Outline(HTMLParser):
    """The elements of a page, and the text of some."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def all(self, *tags: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.elements if tag in tags]

    @property
    def text(self) -> str:
        return " ".join(self.words)


# One file


def test_the_page_is_one_small_file_that_refers_to_nothing_elsewhere(page: Path) -> None:
    assert page.stat().st_size < compose.LIMIT
    references = [value for _, found in Outline(page).elements for name, value in found.items() if name in REFERRING]
    assert references
    assert all(str(value).startswith(("#", "data:")) for value in references)
    assert not re.search(r"url\((?!#)|@import", page.read_text())


REFERRING = ("src", "href", "xlink:href", "poster", "action", "data", "srcset")


def test_a_page_that_would_be_too_large_is_not_written(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compose, "LIMIT", 1000)
    with pytest.raises(Mistake, match="give fewer runs"):
        report([exported], tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_videos_that_find_no_room_are_left_out_in_a_sentence(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compose, "ROOM", 0)
    report([runs / "naive"], tmp_path / "page.html")
    assert not Outline(tmp_path / "page.html").all("video")
    assert "No videos of naive: the page would be too large." in Outline(tmp_path / "page.html").text


def test_the_same_runs_make_the_same_page(exported: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        report([exported / "affinity-l"], tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_every_figure_is_there_as_png_svg_and_pdf(exported: Path, tmp_path: Path) -> None:
    written = report([exported / "affinity-l"], tmp_path / "page.html", tmp_path / "figures")
    drawn = [str(found["id"]).removeprefix("figure-") for found in Outline(written.page).all("figure")]
    assert [name.split("-")[0] for name in drawn] == ["matrix", "curves", "loss", "routes", "thresholds", "capacity"]
    assert {path.name for path in written.figures} == {f"{name}.{form}" for name in drawn for form in FORMATS}
    begins = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    for path in (tmp_path / "figures").iterdir():
        assert path.read_bytes().startswith(begins[path.suffix[1:]]), path
        assert path.suffix != ".svg" or "var(" not in path.read_text()  # a paper has no themes


# What it says


def test_numbers_in_the_page_are_those_of_the_runs(page: Path, found: Study) -> None:
    text = Outline(page).text
    for setting in found.settings:
        for value in setting.summary.returns.values():
            assert typeset(value.value) in text
    assert all(sentence in text for sentence in story(found))


def test_a_matrix_shows_every_mean_and_marks_what_was_carried_over(found: Study) -> None:
    setting = next(setting for setting in found.settings if setting.learner == "tsn-core")
    rows = heat.matrix_figure(found, setting).rows
    assert [cell.endswith(" =") for cell in rows[2][1:]] == [True, True, False]
    both = np.mean([matrix.mean[2][1] for matrix in setting.matrices])
    assert rows[2][2] == f"{typeset(float(both))} ="
    assert rows[0][2] == ""


def test_a_share_of_a_negative_reference_is_turned_round(found: Study) -> None:
    known = Study("toy-continuous", found.settings, ())
    known.__dict__["reference"] = {"up": 4.0, "down": -2.0, "none": 0.0}
    assert known.share("up", 3.0) == 0.75
    assert known.share("up", -1.0) == -0.25
    assert known.share("down", -8.0) == 0.25
    assert known.share("down", -1.0) == 2.0
    assert [known.share("down", 1.0), known.share("none", 1.0), known.share("up", None)] == [None, None, None]


def test_single_is_one_in_its_own_curves_and_lines_begin_where_a_task_is_learned(found: Study) -> None:
    setting = next(setting for setting in found.settings if setting.learner == "single")
    assert found.reference_name == "learned alone"
    rows = curves.learning_figure(found, setting).rows
    assert [cell == "" for cell in rows[2][1:]] == [True, True, False]
    assert all(float(cell) == 1 for row in rows for cell in row[1:] if cell)


def test_of_several_singles_the_one_whose_settings_most_others_share_is_the_reference(found: Study) -> None:
    single = next(setting for setting in found.settings if setting.learner == "single")
    odd = replace(single, label="single odd", settings={**single.settings, "fit.steps": 1})
    assert single.agrees(single)
    assert not single.agrees(odd)
    for settings in ((odd, *found.settings), (*found.settings, odd)):
        known = Study(found.suite, settings, ())
        assert [setting.label for setting in known.singles] == [single.label, odd.label]
        assert known.reference_name == f"learned alone ({single.label})"


def test_without_single_the_data_is_the_reference(runs: Path) -> None:
    alone = read_study([runs / "naive"])
    assert alone.reference_name == "the data's mean return"
    assert alone.reference == json.loads((runs / "naive" / "config.json").read_text())["data_returns"]


def test_masks_share_what_the_accounts_call_reused(found: Study) -> None:
    setting = next(setting for setting in found.settings if setting.learner == "affinity-l")
    first = setting.runs[0]
    assert {first.matrix.task_copy[task] for task in setting.tasks} == {0}
    reused = first.matrix.accounts[0]["tasks"][setting.tasks[1]]
    share = first.overlap[setting.tasks[1], setting.tasks[0]]  # the second can reuse nothing but the first's
    assert share == pytest.approx(reused["reused"] / reused["selected"])
    assert first.overlap[setting.tasks[0], setting.tasks[0]] == 1


def test_a_decision_is_told_with_its_nearest_task_and_its_threshold() -> None:
    candidates = [{"task": "A", "distance": 3.0, "copy": 0}, {"task": "B", "distance": 2.0, "copy": 1}]
    route = {"task": "C", "candidates": candidates, "threshold": 2.5, "copy": 1, "opened": False, "source": "B"}
    assert route_reason({**route, "reason": "near enough"}) == (
        "C joined copy 1 and starts from B: the nearest task, B, is 2 away, and 2.5 is allowed (near enough)."
    )
    opened = {**route, "threshold": 1.0, "copy": 2, "opened": True, "source": None, "reason": "too far"}
    assert route_reason(opened) == "C opened copy 2: the nearest task, B, is 2 away, and 1 is allowed (too far)."
    assert route_reason({**opened, "source": "A"}).startswith("C opened copy 2 with the network of A: the nearest")


def test_unbeaten_is_what_no_other_beats_in_return_bytes_and_forgetting() -> None:
    def place(number: int, worth: float, size: float, forgotten: float, terms: str = "ours") -> front.FrontPoint:
        setting = SimpleNamespace(terms=terms)
        return front.FrontPoint(setting, number, front.Estimate(worth, None), size, forgotten)  # type: ignore[arg-type]

    places = [place(1, 9, 30, 0), place(2, 8, 10, 0), place(3, 8, 20, 0), place(4, 7, 5, 1), place(5, 7, 5, 2)]
    assert [found.number for found in front.unbeaten(places)] == [4, 2, 1]
    other = place(6, 0, 40, 3, "others")  # beaten in all, were it on the same terms
    assert [found.number for found in front.unbeaten([*places, other])] == [4, 2, 1, 6]


def test_learners_of_other_tasks_are_not_ranked_together_and_their_tasks_are_counted_as_they_are(
    tmp_path: Path,
) -> None:
    a_run(tmp_path, "a", "naive", 0, [1.0, 2.0], "atari5")
    a_run(tmp_path, "b", "si", 0, [1.0, 2.0], "atari5")
    for name in ("naive", "ewc"):  # better, of fewer tasks
        first_tasks(a_run(tmp_path, f"few-{name}", name, 0, [30.0, 40.0], "atari5"), 3)
    found = read_study([tmp_path])
    assert "4 runs of 3 learners learned 3 to 5 of 5 tasks of atari5 one after another: Breakout," in story(found)[0]
    few, all_of_them = sorted(sentence for sentence in story(found) if "best mean" in sentence)
    assert few.startswith("Of those that learned Breakout, Alien and Atlantis, the best mean in the end is that of ")
    assert all_of_them.startswith("Of those that learned Breakout, Alien, Atlantis, Boxing and Centipede, the best")
    assert "naive order=Breakout,Alien,Atlantis,Boxing,Centipede: NormAvg" in all_of_them
    assert "naive order=Breakout,Alien,Atlantis: NormAvg" not in all_of_them
    (together,) = [
        sentence for sentence in story(read_study([tmp_path / "a", tmp_path / "b"])) if "best mean" in sentence
    ]
    assert together.startswith("The best mean in the end is that of ")


def test_learners_on_other_terms_are_not_ranked_together(tmp_path: Path) -> None:
    def best(*names: str) -> list[str]:
        found = read_study([tmp_path / name for name in names])
        return [sentence.split(" best mean")[0] for sentence in story(found) if "best mean" in sentence]

    for name, learner in (("a", "naive"), ("b", "si"), ("c", "naive"), ("d", "naive")):
        path = a_run(tmp_path, name, learner, 0, [1.0, 2.0], "atari5")
        config, matrix = (json.loads((path / f"{file}.json").read_text()) for file in ("config", "matrix"))
        if name == "c":
            config["config"]["protocol"] = matrix["protocol"] = {**matrix["protocol"], "name": "sticky"}
        if name == "d":
            config["config"]["data"], matrix["targets"] = "expert-100", [1.0, 2.0, 3.0, 4.0, 5.0]
        (path / "config.json").write_text(json.dumps(config))
        (path / "matrix.json").write_text(json.dumps(matrix))
    assert best("a", "b") == ["The"]
    assert best("a", "c") == [
        "Of those that were played under paper, the",
        "Of those that were played under sticky, the",
    ]
    assert "Of those that had the targets 1.000, 2.000, 3.000, 4.000 and 5.000, the" in best("a", "d")
    assert len(best("a", "b", "c", "d")) == 3


def first_tasks(path: Path, count: int) -> None:
    """Makes a run one of its first tasks alone."""
    config, matrix = (json.loads((path / f"{name}.json").read_text()) for name in ("config", "matrix"))
    config["config"]["order"] = config["config"]["order"][:count]
    for name in ("tasks", "targets"):
        matrix[name] = matrix[name][:count]
    for name in CELLS:
        matrix[name] = [row[:count] for row in matrix[name][:count]]
    (path / "certificates.json").unlink(missing_ok=True)  # which are of all tasks
    (path / "config.json").write_text(json.dumps(config))
    (path / "matrix.json").write_text(json.dumps(matrix))


def test_results_that_were_carried_over_are_not_said_to_be_played(runs: Path) -> None:
    said = "its result was carried over"
    assert said in what_was_done(read_study([runs / "tsn-core"]))
    assert said not in what_was_done(read_study([runs / "naive"]))


def test_intervals_that_have_a_number_in_common_leave_open_which_is_better() -> None:
    def place(low: float, high: float) -> front.FrontPoint:
        return front.FrontPoint(None, 1, front.Estimate(0.0, (low, high)), 1, 0)  # type: ignore[arg-type]

    assert intervals_overlap(place(1, 3), place(3, 4))
    assert intervals_overlap(place(1, 9), place(3, 4))
    assert not intervals_overlap(place(1, 2), place(3, 4))
    assert not intervals_overlap(place(3, 4), place(1, 2))


def test_what_cannot_be_shown_without_weights_is_said_and_no_error(exported: Path, tmp_path: Path) -> None:
    main(["report", str(exported), "--out", str(tmp_path / "page.html")])
    outline = Outline(tmp_path / "page.html")
    assert not outline.all("video")
    assert "the run folders have no weights." in outline.text
    assert "came without weights, so that the masks cannot be compared" in outline.text
    drawn = {str(found.get("id")) for found in outline.all("figure")}
    assert {"figure-matrix-naive", "figure-curves-naive", "figure-loss-naive", "figure-capacity-tsn-core"} <= drawn


def test_a_run_that_is_not_evaluated_is_named_and_left_out(exported: Path, tmp_path: Path) -> None:
    place = tmp_path / "runs"
    shutil.copytree(exported, place)
    (place / "naive" / "matrix.json").unlink()
    report([place], tmp_path / "page.html")
    assert "not evaluated to its end: naive." in Outline(tmp_path / "page.html").text
    assert str(tmp_path) not in (tmp_path / "page.html").read_text()  # where it was made is no one's business


def test_a_run_in_this_very_folder_has_its_name(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(exported / "naive")
    assert read_study([Path()]).settings[0].runs[0].name == "naive"


def test_a_run_beside_its_export_counts_once_and_keeps_its_weights(runs: Path, exported: Path) -> None:
    for order in ([exported, runs], [runs, exported]):
        both = read_study(order)
        assert [[run.seed for run in setting.runs] for setting in both.settings] == [[0], [0], [0, 1], [0]]
        assert all(run.has_weights for setting in both.settings for run in setting.runs)


def test_two_results_of_one_seed_are_a_mistake_and_not_a_mean(exported: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(exported / "naive", tmp_path / name)
    changed = json.loads((tmp_path / "two" / "matrix.json").read_text())
    changed["returns"][-1][0][0] += 1.0
    (tmp_path / "two" / "matrix.json").write_text(json.dumps(changed))
    with pytest.raises(Mistake, match="one and two are one run with two results"):
        read_study([tmp_path])


def test_of_one_run_with_two_versions_the_newer_is_shown_and_the_page_says_so(exported: Path, tmp_path: Path) -> None:
    for name in ("new", "old"):
        shutil.copytree(exported / "naive", tmp_path / name)
    record = json.loads((tmp_path / "old" / "config.json").read_text())
    record["versions"]["torch"] = "1.0"
    (tmp_path / "old" / "config.json").write_text(json.dumps(record))
    found = read_study([tmp_path])
    assert [run.name for setting in found.settings for run in setting.runs] == ["new"]
    assert story(found)[-1].startswith("new is shown, not old: the same run")


def test_no_intervals_are_said_to_be_missing_where_there_are_some(tmp_path: Path) -> None:
    said = "One episode of one run says nothing about others, so no intervals"
    for seed in (0, 1):  # twenty times the same episode, as under Atari's protocol `paper`
        a_run(tmp_path, f"naive-{seed}", "naive", seed, [10.0 + seed] * 20, "atari5")
    found = read_study([tmp_path])
    assert (found.settings[0].summary.episodes, found.settings[0].summary.gap.interval is None) == (1, False)
    assert said not in what_was_done(found)
    assert said + " are given." in what_was_done(read_study([tmp_path / "naive-0"]))
    a_run(tmp_path, "si", "si", 0, [10.0] * 20, "atari5")
    assert said + " of si are given." in what_was_done(read_study([tmp_path]))
    assert said + " are given in Breakout and over all." in what_was_done(read_study([KEPT / "naive-s0"]))
    both = read_study([KEPT / "naive-s0", KEPT.parent / "paper" / "si-s0"])
    first, second = (
        next(setting.label for setting in both.settings if setting.learner == name) for name in ("si", "naive")
    )
    assert said + f" of {first} are given, and no intervals of {second} are given in Breakout and over all." in (
        what_was_done(both)
    )


def test_where_intervals_are_missing_is_said_of_each_setting(tmp_path: Path) -> None:
    for learner, same in (("naive", 0), ("si", 3)):  # the task in which all episodes were one
        path = a_run(tmp_path, learner, learner, 0, [10.0, 12.0], "atari5") / "matrix.json"
        record = json.loads(path.read_text())
        for row in record["distinct_episodes"]:
            row[same] = row[same] and 1
        path.write_text(json.dumps(record))
    said = what_was_done(read_study([tmp_path]))
    assert "no intervals of si are given in Boxing and over all" in said
    assert "no intervals of naive are given in Breakout and over all" in said


def test_lines_join_only_what_compares(tmp_path: Path) -> None:
    for name in ("naive", "ewc"):
        a_run(tmp_path, name, name, 0, [1.0, 2.0], "atari5")
        first_tasks(a_run(tmp_path, f"few-{name}", name, 0, [30.0, 40.0], "atari5"), 3)
    found = front.front_points(read_study([tmp_path]), "NormAvg")
    axes = Figure().subplots()
    front.draw_front(axes, found, found, "NormAvg")
    joined = [line for line in axes.lines if len(line.get_xdata()) == 2 and line.get_linewidth() == 0.8]
    assert len(joined) == 2


def test_a_page_is_about_one_suite(exported: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(exported / "naive", tmp_path / name)
    for path in (tmp_path / "two").glob("*.json"):
        path.write_text(path.read_text().replace("toy-continuous", "toy"))
    with pytest.raises(Mistake, match="holds runs of toy and toy-continuous: a page is about one suite"):
        read_study([tmp_path])


def test_runs_behind_a_link_are_on_the_page_as_they_are_in_the_table(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(exported)
    assert len(read_study([tmp_path]).settings) == 4
    assert {path.name for path in export_runs([tmp_path], tmp_path / "out")} == {
        path.name for path in exported.iterdir()
    }


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["report"], "a page needs runs"),
        (["report", "nowhere"], "there is no folder nowhere"),
        (["report", "nowhere", "--out", "."], ". is a folder: give the page a name"),
    ],
)
def test_a_mistake_is_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert sentence in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [name for name in SUITES if name not in ("cw20", "mt50")])  # filmed as cw10 is
def test_every_suite_can_be_filmed(name: str) -> None:
    av = pytest.importorskip("av")
    suite = SUITES[name].suite()
    task, config = suite.tasks[0], DtConfig(width=16, layers=1, heads=1, context=2)
    policy = Policy(new_net(config, suite.interface, 0), Normaliser.identity(), task.target, 1.0)
    video = film_task(policy, task, configure(name, "naive", budget="smoke").protocol, suite.spec)
    with av.open(BytesIO(video.webm)) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert frames[0].shape[:2] == video.size[::-1]
    assert 10 < len(frames) < 4 * MOST
    assert any(np.abs(frame.astype(int) - frames[0]).max() > 50 for frame in frames)  # something moves
    assert video.poster.startswith(b"\xff\xd8")


def test_a_filmed_episode_is_the_one_that_was_evaluated(runs: Path) -> None:
    pytest.importorskip("av")
    suite, learner = reopen(runs / "tsn-core", "cpu")
    for task, returns in zip(suite.tasks, learner_returns(runs / "tsn-core"), strict=True):
        video = film_task(learner.policy(task.name), task, learner.plan.protocol, suite.spec)
        assert video.returns == pytest.approx(returns[: len(video.returns)], rel=1e-4)  # one lane sums otherwise
        assert list(video.seeds) == list(learner.plan.protocol.seeds[: len(video.seeds)])


def learner_returns(path: Path) -> list[list[float]]:
    """Every episode after the last task."""
    return json.loads((path / "matrix.json").read_text())["returns"][-1]


# To everyone


def test_text_becomes_markup_nowhere() -> None:
    assert element("p", "<b>&\"'", title="\">'") == '<p title="&quot;&gt;&#x27;">&lt;b&gt;&amp;&quot;&#x27;</p>'
    assert element("p", Html("<b>")) == "<p><b></p>"


def test_columns_of_numbers_stand_right_and_others_left() -> None:
    made = table(["name", "number", "word"], [["a", "\N{MINUS SIGN}1", "x"], ["b", "", "2 or so y"]], "caption")
    assert made.count('class="number"') == 3
    assert '<td class="number">\N{MINUS SIGN}1</td><td>x</td>' in made


def test_structure_is_there_for_who_does_not_see_the_page(page: Path) -> None:
    outline = Outline(page)
    tags = [tag for tag, _ in outline.elements]
    assert all(tags.count(landmark) == 1 for landmark in ("header", "nav", "main", "footer", "h1"))
    levels = [int(tag[1]) for tag in tags if re.fullmatch("h[1-6]", tag)]
    assert all(lower - upper <= 1 for upper, lower in pairwise(levels))
    ids = [found["id"] for _, found in outline.elements if "id" in found]
    assert len(set(ids)) == len(ids)
    assert all(found["role"] == "img" and len(found["aria-label"] or "") > 20 for found in outline.all("svg"))
    assert all(found.get("aria-label") for found in outline.all("video"))
    assert page.read_text().count("<details><summary>Numbers") == len(outline.all("svg"))  # a table behind each


# In a browser


def test_every_figure_is_drawn_without_a_word_on_the_console_or_the_network(page: Path, watch: Any) -> None:
    seen = watch(page)
    boxes = seen.view.evaluate(
        "[...document.querySelectorAll('figure svg')].map(svg => "
        "[svg.clientWidth, svg.clientHeight, svg.querySelectorAll('path, use, image').length, "
        "svg.querySelector('text')?.getBoundingClientRect().width])"
    )
    # One for all, three for each setting, three more for each sparse one, and one for the one with a threshold.
    assert len(boxes) == 1 + 4 * 3 + 2 * 3 + 1
    assert all(width > 200 and height > 40 and marks > 3 and text > 5 for width, height, marks, text in boxes)
    seen.view.wait_for_timeout(300)
    assert seen.told == []
    assert [url for url in seen.asked if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in seen.asked if url.startswith("file:")]) == 1


def test_videos_rest_until_asked_and_then_play(page: Path, watch: Any) -> None:
    seen = watch(page)
    videos = seen.view.locator("video")
    assert videos.count() == 12  # four settings, three tasks
    assert seen.view.evaluate("[...document.querySelectorAll('video')].every(video => video.paused && video.controls)")
    seen.view.get_by_role("button", name="Play all").click()
    seen.view.wait_for_function(  # a function, not an expression: the page's policy allows no eval
        "() => [...document.querySelectorAll('video')].every(video => video.currentTime > 0.1 && video.videoWidth > 0)"
    )
    seen.view.get_by_role("button", name="Pause all").click()
    seen.view.wait_for_function("() => [...document.querySelectorAll('video')].every(video => video.paused)")
    assert seen.told == []


def test_a_task_called_script_does_nothing_and_is_shown_as_it_is_called(hostile: Path, watch: Any) -> None:
    seen = watch(hostile)
    assert seen.view.evaluate("window.hit") is None
    assert seen.view.evaluate("document.scripts.length") == 1
    assert seen.view.locator("img").count() == 0
    assert HOSTILE in seen.view.locator("#results th").all_inner_texts()
    assert "<script>" in seen.view.locator("#matrix svg").first.text_content()
    assert seen.told == []
    assert len(seen.asked) == 1


def test_no_script_but_the_page_s_own_may_run(page: Path, watch: Any, tmp_path: Path) -> None:
    added = page.read_text().replace("</main>", "<script>window.hit=1</script></main>")
    (tmp_path / "page.html").write_text(added)
    seen = watch(tmp_path / "page.html")
    assert seen.view.evaluate("window.hit") is None
    assert any("Content Security Policy" in message for message in seen.told)


def test_all_that_can_be_used_is_reached_by_tab_in_the_order_it_stands_and_shows_its_focus(
    page: Path, watch: Any
) -> None:
    view = watch(page).view
    reached = []
    expected = view.evaluate(USABLE)
    for _ in range(len(expected)):
        view.keyboard.press("Tab")
        reached.append(view.evaluate("document.activeElement.dataset.place"))
        assert view.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    assert reached == expected
    assert len(reached) > 40


USABLE = """(() => {
  const shown = (found) => !found.closest('details:not([open])') || found.matches('summary');
  const all = [...document.querySelectorAll('a[href], button, summary, [tabindex="0"], video')].filter(shown);
  for (const video of document.querySelectorAll('video')) { video.controls = false; video.tabIndex = 0; }  // one stop
  all.forEach((found, place) => { found.dataset.place = place; });
  return all.map((found) => found.dataset.place);
})()"""


def test_keys_skip_to_the_results_unfold_numbers_and_sort_them(page: Path, watch: Any) -> None:
    view = watch(page).view
    view.keyboard.press("Tab")
    view.keyboard.press("Enter")
    assert view.evaluate("document.activeElement.id") == "main"
    view.locator("#matrix summary").first.focus()
    view.keyboard.press("Enter")
    assert view.locator("#matrix details").first.locator("table").is_visible()
    heading = view.locator("#results th", has_text="AvgF")
    for order in ("ascending", "descending"):
        heading.locator("button").press("Enter")
        place = heading.evaluate("head => head.cellIndex")
        cells = [row.locator("td, th").nth(place).inner_text() for row in view.locator("#results tbody tr").all()]
        values = [float(cell.replace("\N{MINUS SIGN}", "-")) for cell in cells]
        assert values == sorted(values, reverse=order == "descending")
        assert heading.get_attribute("aria-sort") == order


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_the_page_is_never_wider_than_its_window(page: Path, watch: Any, width: int) -> None:
    view = watch(page, viewport={"width": width, "height": 800}).view
    assert view.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_by_day_and_by_night_in_figures_too(page: Path, watch: Any, scheme: str) -> None:
    view = watch(page, color_scheme=scheme).view
    colours = view.evaluate(
        "Object.fromEntries(['ink', 'soft', 'link', 'paper', 'card', 'task-0', 'task-1', 'task-2'].map(name => "
        "[name, getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim()]))"
    )
    for ground in ("paper", "card"):
        assert all(contrast(colours[text], colours[ground]) >= 4.5 for text in ("ink", "soft", "link"))
        assert all(contrast(colours[line], colours[ground]) >= 3 for line in ("task-0", "task-1", "task-2"))
    inks = view.evaluate("[...document.querySelectorAll('#curves svg text')].map(text => getComputedStyle(text).fill)")
    assert set(inks) == {f"rgb({', '.join(str(part) for part in channels(colours['soft']))})"}


def channels(colour: str) -> list[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it."""

    def luminance(colour: str) -> float:
        parts = np.array(channels(colour)) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)
