"""After any sequence of changes every task acts as it did when it was learned, and every state can be reached again."""

from pathlib import Path

import numpy as np
import pytest

from holdfast.agent.agent import Agent
from holdfast.learners.subnetworks import SubnetworkLearner
from tests.agents import actions, learn, new_agent, state
from tests.test_agent_removal import check_accounts

KINDS = ("pendulum", "cartpole")
SETTINGS = {"subnets__tasks": 12}
LEARNERS = {"affinity-l": SETTINGS, "affinity-a": SETTINGS, "tsn-core": SETTINGS, "single": {}}


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("seed", range(2))
def test_every_surviving_task_acts_as_it_did_and_every_state_comes_back(
    learner: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.agent.agent.BUDGETS", {"smoke": 4})
    rng = np.random.default_rng(seed)
    agent = new_agent(tmp_path / "agent", learner, **LEARNERS[learner])
    did: dict[int, dict[str, tuple[str, bytes]]] = {0: {}}  # by state: what each task does
    states = {0: state(agent)} if agent.exists else {0: {}}
    for step in range(9):
        now = agent.history()[-1].number if agent.history() else 0
        known = dict(did[now])
        verb = rng.choice(["learn", "remove", "rollback", "prune"], p=[0.5, 0.2, 0.2, 0.1]) if known else "learn"
        if verb == "learn":
            name, kind = f"task-{step}", str(rng.choice(KINDS))
            learn(agent, name, kind)
            known[name] = (kind, actions(agent, name, kind))
        elif verb == "remove":
            name = str(rng.choice(list(known)))
            agent.remove(name)
            del known[name]
        elif verb == "rollback":
            to = int(rng.choice([past.number for past in agent.folder.store.index.past] or [now]))
            if to == now:
                continue
            agent.rollback(to)
            known = did[to]
            assert state(agent) == states[to]
        else:
            agent.prune(keep=2)
        number = agent.history()[-1].number
        did[number], states[number] = known, state(agent)
        again = Agent(agent.path, device="cpu")
        assert sorted(again.verify()) == sorted(known)
        for name, (kind, acted) in known.items():
            assert actions(again, name, kind) == acted, (step, verb, name)
        found = again._learner()
        assert {route["task"]: route["copy"] for route in found.routes()} == {
            name: found.task_copy(name) for name in (found.learned if found.routes() else [])
        }
        if isinstance(found, SubnetworkLearner):
            check_accounts(found)
