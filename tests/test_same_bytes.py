"""A dense control of the same bytes: the widest network that takes no more than what acts in a run."""

import re

import pytest

from holdfast.errors import Mistake
from holdfast.learners.dense import treat
from holdfast.nets.mlp import MlpConfig
from holdfast.nets.transformer import DtConfig
from holdfast.runs.folder import RunFolder
from holdfast.runs.run import run
from holdfast.study.same_bytes import dense_bytes, dense_width, main, normaliser_bytes
from tests.tiny import QUIET, pixel_suite, tiny_learner, tiny_suite


@pytest.mark.parametrize("net", [DtConfig(heads=4), DtConfig(heads=1, layers=1), MlpConfig()])
@pytest.mark.parametrize("available", [20_000, 1_000_000])
def test_it_is_the_widest_network_that_fits(net, available):
    interface, step = tiny_suite().interface, getattr(net, "heads", 1)
    width = dense_width(net, interface, available)
    assert width % step == 0
    assert dense_bytes(net, interface, width) <= available < dense_bytes(net, interface, width + step)


def test_bytes_that_no_network_fits_into_are_refused():
    with pytest.raises(Mistake, match=r"takes as little as 10 bytes"):
        dense_width(DtConfig(), tiny_suite().interface, 10)


@pytest.mark.parametrize("tasks", [2, 3])
def test_dense_runs_of_these_widths_take_the_printed_bytes_which_are_at_most_those_of_the_run(tmp_path, capsys, tasks):
    suite = tiny_suite(tasks=tasks)
    settings = {"net__width": 64, "fit__steps": 1}
    one_copy = {"routing__max_copies": 1, "subnets__biases": "outside", "subnets__new": 0.3}
    run(suite, tiny_learner("affinity-l", suite, **settings, **one_copy), tmp_path / "sparse", QUIET)
    main([str(tmp_path / "sparse")])
    printed = re.findall(r"--net.width (\d+), ([\d,]+) bytes", capsys.readouterr().out)
    available = RunFolder(tmp_path / "sparse").read_matrix().bytes["weights"]
    for learner, (width, told) in zip(("naive", "single"), printed, strict=True):
        run(suite, tiny_learner(learner, suite, **{**settings, "net__width": int(width)}), tmp_path / learner, QUIET)
        taken = RunFolder(tmp_path / learner).read_matrix().bytes["weights"]
        assert taken == int(told.replace(",", ""))
        assert 0.9 * available < taken <= available


@pytest.mark.parametrize("suite", [tiny_suite(), pixel_suite()], ids=["vectors", "frames"])
def test_the_normaliser_of_a_task_is_counted_as_a_learner_stores_it(suite):
    learner = tiny_learner("naive", tiny_suite())
    normaliser, _ = treat(learner.config, suite.interface, suite.tasks[0].dataset)
    assert normaliser_bytes(suite.interface) == normaliser.shift.nbytes + normaliser.scale.nbytes


def test_the_normalisers_of_dense_networks_are_part_of_the_bytes_that_they_may_take(tmp_path, capsys, monkeypatch):
    suite = tiny_suite(tasks=2)
    run(suite, tiny_learner("affinity-l", suite, net__width=64, fit__steps=1), tmp_path / "sparse", QUIET)
    available = RunFolder(tmp_path / "sparse").read_matrix().bytes["weights"]
    monkeypatch.setattr("holdfast.study.same_bytes.normaliser_bytes", lambda interface: available // 8)
    main([str(tmp_path / "sparse")])
    for told in re.findall(r"--net.width \d+, ([\d,]+) bytes", capsys.readouterr().out):
        assert available // 4 < int(told.replace(",", "")) <= available
