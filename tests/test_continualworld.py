"""Continual World: an episode is its seed and actions, less data is the beginning of more, processes change nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from holdfast.benchmarks.continualworld import recording
from holdfast.benchmarks.continualworld.orders import CW10, CW20, MT50, simulated
from holdfast.benchmarks.continualworld.recording import build_datasets, dataset_name, demonstrate, load_dataset, record
from holdfast.benchmarks.continualworld.reference import play_random, references
from holdfast.benchmarks.continualworld.sawyer import HORIZON, UntilSuccess, make_environment, make_simulators
from holdfast.benchmarks.continualworld.view import backend, rendering
from holdfast.cli.main import main
from holdfast.data import minari as store
from holdfast.data.demonstrations import Demonstrations
from holdfast.errors import MissingData, Mistake
from holdfast.registry import SUITES
from holdfast.runs.configure import configure
from holdfast.tasks.data_reports import silent
from holdfast.tasks.environments import InTurn, Protocol
from holdfast.tasks.processes import processes
from holdfast.tasks.replays import replay_episodes
from holdfast.tasks.suite import suite
from tests.tiny import contents

pytestmark = pytest.mark.usefixtures("own_datasets")
TASK = "handle-press-side"  # the fastest one


@pytest.fixture(scope="module")
def four() -> Demonstrations:
    build_datasets([TASK], 4, silent)
    return store.read(dataset_name(TASK))


def same(one: Demonstrations, other: Demonstrations) -> bool:
    arrays = [(one.observations["observation"], other.observations["observation"])]
    arrays += [(getattr(one, name), getattr(other, name)) for name in ("actions", "rewards", "lengths", "seeds")]
    return all(np.array_equal(mine, theirs) for mine, theirs in arrays)


def played(name: str, seeds: list[int]) -> dict[int, Demonstrations]:
    environment = make_environment(name)
    episodes = {seed: demonstrate(environment, name, seed)[0] for seed in seeds}
    environment.close()
    return episodes


def test_an_episode_is_a_function_of_its_seed_and_actions_in_any_order_and_in_two_processes():
    with processes(1) as pool:
        for name in ("hammer", "stick-pull", "push-wall"):
            there = pool.submit(played, name, [2, 0, 1])
            here = played(name, [0, 1, 2])
            assert all(same(here[seed], there.result()[seed]) for seed in here)
            assert not same(here[0], here[1])


@pytest.mark.parametrize("name", ["hammer", "stick-pull"])
def test_an_environment_with_a_copied_model_plays_as_one_with_its_own(name):
    from metaworld.env_dict import ALL_V3_ENVIRONMENTS

    demonstrate(make_environment(name), name, 3)  # which must not change the model that the next one gets
    copied, own = make_environment(name), UntilSuccess(ALL_V3_ENVIRONMENTS[f"{name}-v3"]())
    assert copied.arm.model is not make_environment(name).arm.model
    for seed in (5, 6):
        assert same(demonstrate(copied, name, seed)[0], demonstrate(own, name, seed)[0])


def test_lanes_in_processes_give_what_one_environment_gives_after_the_other():
    protocol = Protocol(episodes=3, lanes=3)
    together, alone = make_simulators("push", protocol), InTurn(lambda: make_environment("push"), 3)
    rng = np.random.default_rng(0)
    assert np.array_equal(together.reset(protocol.seeds), alone.reset(protocol.seeds))
    for _ in range(10):
        actions = rng.uniform(-1, 1, (3, 4)).astype(np.float32)
        ours, theirs = together.step(actions), alone.step(actions)
        assert all(np.array_equal(getattr(ours, name), value) for name, value in vars(theirs).items())
    together.close()
    alone.close()


def test_every_step_costs_one_until_success_or_step_200():
    environment = make_environment(TASK)
    recorded, succeeded = demonstrate(environment, TASK, 0)
    assert succeeded
    assert recorded.rewards.tolist() == [-1.0] * len(recorded.rewards)
    assert len(recorded.rewards) < HORIZON
    environment.reset(seed=0)
    for step in range(HORIZON):
        *_, terminated, truncated, info = environment.step(np.zeros(4, np.float32))
        assert (terminated, truncated, info) == (False, step == HORIZON - 1, {"success": False})
    environment.close()


def test_observations_show_the_goal_at_every_step_and_actions_beyond_the_range_are_clipped():
    environment = make_environment("push")
    first, _ = environment.reset(seed=3)
    second = environment.step(np.array([5.0, -5.0, 0.5, 9.0], np.float32))[0]
    environment.reset(seed=3)
    clipped = environment.step(np.array([1.0, -1.0, 0.5, 1.0], np.float32))[0]
    environment.close()
    assert first.shape == (39,)
    assert first.dtype == second.dtype == np.float32
    assert first[-3:].any()
    assert np.array_equal(first[-3:], second[-3:])
    assert np.array_equal(second, clipped)


def test_a_recording_does_not_depend_on_the_number_of_processes_and_less_is_the_beginning_of_more(four):
    with processes(1) as pool:
        two = record(TASK, 2, silent, pool)
        more = record(TASK, 4, silent, pool, before=two)
    assert same(two, four.first_episodes(2))
    assert same(more, four)
    assert four.seeds.max() < Protocol().first_seed  # no episode of an evaluation is among the data


def test_only_demonstrations_that_are_missing_are_recorded(four, monkeypatch):
    asked = []

    def recorded(name, count, report, pool, before):
        asked.append((name, count, len(before.lengths)))
        return record(name, count, report, pool, before)

    monkeypatch.setattr(recording, "record", recorded)
    with pytest.raises(MissingData, match=f"there are 4 of 5 demonstrations of {TASK} .* --demonstrations 5"):
        load_dataset(TASK, 5)
    found = suite("cw20", [TASK, f"{TASK}-2"], demonstrations=5)
    found.load()
    build_datasets([TASK, f"{TASK}-2"], 5, silent)
    suite("cw10", [TASK], demonstrations=3).load()
    assert asked == [(TASK, 5, 4)]
    assert [len(task.dataset) for task in found.tasks] == [5, 5]
    assert same(store.read(dataset_name(TASK)).first_episodes(4), four)


def test_failed_episodes_are_not_demonstrations(monkeypatch):
    def fails_often(environment, name, seed):
        return demonstrate(environment, name, seed)[0], seed % 3 == 0

    monkeypatch.setattr(recording, "demonstrate", fails_often)
    assert [int(kept.seeds[0]) for kept in recording._play_block(TASK, range(4))] == [0, 3]


def test_a_task_that_is_learned_again_has_another_name_and_the_same_data_and_simulator(four):
    found = suite("cw20", demonstrations=4)
    assert found.names[:10] == list(CW10)
    assert len(set(found.names)) == 20
    first, second = found.task(TASK), found.task(f"{TASK}-2")
    assert first.dataset.fingerprint == second.dataset.fingerprint
    assert (first.target, first.simulator) == (second.target, second.simulator)
    protocol = Protocol(episodes=1)
    starts = []
    for task in (first, second):
        environments = task.environments(protocol)
        starts.append(environments.reset(protocol.seeds))
        environments.close()
    assert np.array_equal(*starts)


def test_the_suites_are_continual_worlds_tasks_and_all_of_meta_world():
    from metaworld.env_dict import ALL_V3_ENVIRONMENTS
    from metaworld.policies import ENV_POLICY_MAP

    assert {f"{name}-v3" for name in MT50} == set(ALL_V3_ENVIRONMENTS) == set(ENV_POLICY_MAP)
    assert len(MT50) == 50
    assert MT50[:10] == CW20[:10] == CW10
    assert [simulated(name) for name in CW20[10:]] == list(CW10)
    assert [SUITES[name].order for name in ("cw10", "cw20", "mt50")] == [CW10, CW20, MT50]


def test_every_task_has_reference_numbers():
    assert tuple(references()) == MT50
    for numbers in references().values():
        assert -HORIZON <= numbers.target < 0
        assert numbers.attempts >= 100
        assert 0 < numbers.expert_success <= 1
        assert -HORIZON <= numbers.random_return <= numbers.expert_return <= 0


def test_the_target_is_the_median_return_of_a_hundred_demonstrations():
    with processes(1) as pool:
        hundred = record(TASK, 100, silent, pool)
    assert references()[TASK].target == -np.median(hundred.lengths)
    assert references()[TASK].attempts == hundred.seeds[-1] + 1
    assert SUITES["cw20"].suite().task(f"{TASK}-2").target == references()[TASK].target


def test_the_page_has_the_reference_numbers():
    page = (Path(__file__).parent.parent / "docs" / "suites" / "continualworld.md").read_text(encoding="utf-8")
    for name in CW10:
        numbers = references()[name]
        returns = f"{numbers.expert_success:.0%} | {numbers.expert_return:.1f} | {numbers.random_return:.1f}"
        assert f"| {name} | {numbers.target:g} | {numbers.attempts} | {returns} |" in page


def test_random_returns_are_those_of_the_reference():
    assert SUITES["cw20"].random_returns[f"{TASK}-2"] == references()[TASK].random_return
    assert set(play_random(TASK, Protocol(episodes=2)).returns) == {-float(HORIZON)}


def test_a_check_replays_and_a_changed_observation_is_found(four, capsys):
    main(["data", "check", "cw10", "--order", TASK, "--demonstrations", "4", "--replays", "2"])
    printed = capsys.readouterr().out
    assert "exactly as recorded" in printed
    assert TASK in printed
    seen = four.observations["observation"].copy()
    seen[four.lengths[0] + 3, 0] += 1e-6  # step 2 of the second episode
    changed = Demonstrations({"observation": seen}, four.actions, four.rewards, four.lengths, four.seeds)
    environment = make_environment(TASK)
    assert replay_episodes(TASK, environment, changed, [0, 1]) == (f"{TASK} episode 1 step 2: another observation",)
    environment.close()
    main(["data", "list", "cw10"])
    assert dataset_name(TASK) in capsys.readouterr().out


def test_data_for_another_interface_is_refused(four):
    path = store.folder(dataset_name(TASK)) / "data" / "metadata.json"
    before = path.read_text()
    path.write_text(json.dumps({**json.loads(before), "holdfast_interface": "metaworld-0"}))
    with pytest.raises(Mistake, match="made for interface metaworld-0, not metaworld-1: delete"):
        load_dataset(TASK, 2)
    path.write_text(before)


def test_a_run_builds_its_data_and_evaluating_later_gives_the_same(tmp_path):
    words = ["--suite", "cw20", "--learner", "tsn-core", "--budget", "smoke", "--order", TASK, f"{TASK}-2"]
    words += ["--no-tensorboard", "--net.width", "16", "--fit.steps", "3", "--device", "cpu"]
    main(["run", *words, "--out", str(tmp_path / "now")])
    main(["run", *words, "--out", str(tmp_path / "later"), "--evaluate", "none"])
    main(["evaluate", str(tmp_path / "later")])
    assert contents(tmp_path / "now") == contents(tmp_path / "later")
    record = json.loads((tmp_path / "now" / "config.json").read_text())
    assert record["config"]["demonstrations"] == 2
    assert record["datasets"][TASK] == record["datasets"][f"{TASK}-2"]


def test_the_budgets_count_demonstrations():
    counts = [configure("cw10", "naive", budget=budget).demonstrations for budget in ("smoke", "quick", "full")]
    assert counts == sorted(counts)
    assert counts[-1] == 100
    assert configure("cw20", "naive", budget="full").order == CW20


def test_a_missing_simulator_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "metaworld", None)
    monkeypatch.setitem(sys.modules, "metaworld.env_dict", None)
    with pytest.raises(Mistake, match=r"pip install 'holdfast\[metaworld\]'"):
        make_environment(TASK)


def test_an_episode_without_pictures_needs_no_graphics():
    code = (
        "import sys; from holdfast.benchmarks.continualworld.sawyer import make_environment;"
        f"env = make_environment({TASK!r}); env.reset(seed=0); env.step([0, 0, 0, 0]);"
        "assert 'OpenGL' not in sys.modules"
    )
    environment = {**os.environ, "MUJOCO_GL": "disable"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_pictures_are_made_without_a_display_unless_the_user_says_otherwise(monkeypatch):
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    with rendering():
        assert os.environ["MUJOCO_GL"] == backend()
    assert "MUJOCO_GL" not in os.environ
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    with rendering():
        assert os.environ["MUJOCO_GL"] == "glfw"
    monkeypatch.setattr("holdfast.benchmarks.continualworld.view.find_library", lambda name: None)
    with pytest.raises(Mistake, match="need EGL or OSMesa"):
        backend()
