"""The learners there are, by name."""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.data.validation import shown
from holdfast.errors import Mistake
from holdfast.learners.cumulative import Cumulative, CumulativeConfig
from holdfast.learners.dense import DenseConfig
from holdfast.learners.ewc import Ewc, EwcConfig
from holdfast.learners.learner import Learner
from holdfast.learners.naive import Naive
from holdfast.learners.plan import LearnerConfig
from holdfast.learners.si import Si, SiConfig
from holdfast.learners.single import Single
from holdfast.learners.sparse import Sparse, SparseConfig
from holdfast.nets.transformer import NetConfig
from holdfast.routing.affinities import ActionAffinity, HybridAffinity, LatentAffinity, ReplayAffinity
from holdfast.subnets.claim import SubnetConfig
from holdfast.training.config import FitConfig

NET, FIT, SUBNETS = NetConfig(), FitConfig(), SubnetConfig()


@dataclass(frozen=True)
class Entry:
    """A learner by name: its class, its settings before a suite's, and a line about it."""

    learner: Callable[..., Learner]
    config: LearnerConfig
    about: str


LEARNERS = {
    "naive": Entry(Naive, DenseConfig(NET, FIT), "one dense network, trained on: forgets"),
    "cumulative": Entry(Cumulative, CumulativeConfig(NET, FIT), "one dense network, half of every batch replayed"),
    "ewc": Entry(Ewc, EwcConfig(NET, FIT), "one dense network, held by Fisher information"),
    "si": Entry(Si, SiConfig(NET, FIT), "one dense network, held by path integrals"),
    "single": Entry(Single, DenseConfig(NET, FIT), "an independent dense network per task: the reference"),
    "tsn-core": Entry(Sparse, SparseConfig(NET, FIT, SUBNETS, None), "sparse subnetworks in one copy"),
    "tsn-replaykl": Entry(
        Sparse, SparseConfig(NET, FIT, SUBNETS, ReplayAffinity(0.25)), "copies chosen by the likeness of observations"
    ),
    "affinity-a": Entry(
        Sparse, SparseConfig(NET, FIT, SUBNETS, ActionAffinity(1.0)), "copies chosen by how well actions are predicted"
    ),
    "affinity-l": Entry(
        Sparse, SparseConfig(NET, FIT, SUBNETS, LatentAffinity(25.0)), "copies chosen by the likeness of latents"
    ),
    "affinity-h": Entry(
        Sparse, SparseConfig(NET, FIT, SUBNETS, HybridAffinity(0.5)), "copies chosen by actions and latents, mixed"
    ),
}


def entry(name: str) -> Entry:
    """The learner of this name."""
    if not isinstance(name, str) or name not in LEARNERS:
        raise Mistake(f"there is no learner {shown(name)}; there are {', '.join(LEARNERS)}")
    return LEARNERS[name]
