"""The environment of a user's task is made by its name, and never imports what a folder from elsewhere names."""

import sys

import gymnasium
import pytest

from holdfast.agent.agent import Agent
from holdfast.agent.own_environment import make
from holdfast.errors import Mistake
from tests.test_agent import SETTINGS, learn

MODULE = """
import gymnasium
from tests.recorded_data import ENVIRONMENTS
gymnasium.registry.pop("Packaged-v0", None)
gymnasium.register("Packaged-v0", entry_point=lambda: ENVIRONMENTS["dict"]())
"""


def test_an_unknown_environment_says_that_its_package_can_be_named():
    with pytest.raises(Mistake, match="name the package as well, such as highway_env:parking-v0"):
        make("parking-v0")
    with pytest.raises(Mistake) as mistake:
        make("CartPole-v99")
    assert "package" not in str(mistake.value)


def test_a_recorded_environment_imports_a_module_only_if_the_user_names_it_again(tmp_path, monkeypatch):
    (tmp_path / "packaged.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    agent = Agent(tmp_path / "agent", settings=SETTINGS, device="cpu")
    try:
        assert learn(agent, "mine", "dict", env="packaged:Packaged-v0").played is not None
        del sys.modules["packaged"]
        with pytest.raises(Mistake, match="imports a module: name it with --env"):
            agent.play("mine")
        assert "packaged" not in sys.modules
        assert len(agent.play("mine", "packaged:Packaged-v0", 2).returns) == 2
    finally:
        gymnasium.registry.pop("Packaged-v0")
        sys.modules.pop("packaged", None)
