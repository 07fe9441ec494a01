"""What a plugin gets wrong is one sentence that says what to do, and exit code 2."""

from pathlib import Path

import pytest

from holdfast.cli.main import main

RUN = ["run", "--suite", "toy", "--learner", "affinity-l", "--budget", "smoke", "--device", "cpu", "--no-tensorboard"]
NET = """
from dataclasses import dataclass
import torch
from holdfast.nets.backbone import Backbone, NetConfig
from holdfast.nets.mlp import MlpConfig, Mlp

class Half(Backbone):
    def forward(self, batch):
        return torch.zeros(())

@dataclass(frozen=True)
class HalfConfig(MlpConfig):
    def build(self, interface):
        return Half(self, interface)

@dataclass(frozen=True)
class NoDefault(NetConfig):
    width: int

    context = activations = 3

    def build(self, interface):
        return Half(self, interface)

NETS = {"half": HalfConfig, "empty": NoDefault}
"""


pytestmark = pytest.mark.usefixtures("own_plugins")


@pytest.mark.parametrize(
    ("content", "words", "said"),
    [
        ('LEARNERS = {"a": 3}', ["learners"], "the learner a must be a LearnerSpec, got 3"),
        ('LEARNERS = {"a": 3}', [*RUN, "--learner", "a"], "the learner a must be a LearnerSpec, got 3"),
        ('NETS = {"a": 3}', ["nets"], "the backbone a must be a subclass of NetConfig, got 3"),
        ('NETS = {"a": int}', [*RUN, "--backbone", "a"], "the backbone a must be a subclass of NetConfig"),
        (NET, [*RUN, "--backbone", "empty"], "every field needs a default value"),
    ],
)
def test_an_entry_of_a_wrong_kind_is_one_sentence(
    content: str, words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(content, [*words, "--plugin"], tmp_path, capsys)


def test_a_backbone_that_lacks_a_method_is_one_sentence_before_there_is_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = NET.replace(', "empty": NoDefault', "")
    said = refused(content, [*RUN, "--backbone", "half", "--out", str(tmp_path / "run"), "--plugin"], tmp_path, capsys)
    assert "the backbone of HalfConfig cannot be built" in said
    assert "abstract" in said
    assert not (tmp_path / "run").exists()


def test_a_name_that_is_not_there_is_said_with_the_flag_that_adds_those_of_plugins(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as end:
        main([*RUN, "--learner", "mine"])
    assert end.value.code == 2
    assert "--plugin FILE.py adds those of a plugin" in capsys.readouterr().err


def refused(content: str, words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command with this plugin says on its way to exit code 2."""
    path = folder / "mine.py"
    path.write_text(content)
    with pytest.raises(SystemExit) as end:
        main([*words, str(path)])
    said = capsys.readouterr().err
    assert end.value.code == 2
    assert said.count("\n") == 1
    return said
