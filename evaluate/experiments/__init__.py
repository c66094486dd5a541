"""The experiments of jatpo, one module each; importing this package enters them into `EXPERIMENTS`."""

from jatpo.evaluate.experiments.beyond import Beyond
from jatpo.evaluate.experiments.comparison import Comparison
from jatpo.evaluate.experiments.filters import Filters
from jatpo.evaluate.experiments.identification import Identification
from jatpo.evaluate.experiments.loss_bound import LossBound
from jatpo.evaluate.experiments.misspecified import Misspecified
from jatpo.evaluate.experiments.off_policy import OffPolicy
from jatpo.evaluate.experiments.scaling import Scaling
from jatpo.evaluate.experiments.simulators import Scale, Simulators
from jatpo.evaluate.experiments.tune import Tune

__all__ = [
    "Beyond",
    "Comparison",
    "Filters",
    "Identification",
    "LossBound",
    "Misspecified",
    "OffPolicy",
    "Scale",
    "Scaling",
    "Simulators",
    "Tune",
]
