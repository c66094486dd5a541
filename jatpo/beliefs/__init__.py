"""Beliefs behind one protocol: dense [X], a list of the states that have weight, or the first until the second fits."""

from jatpo.beliefs.belief_protocol import (
    Diagnostics,
    Representation,
    each_model,
    error_bound,
    start_library,
    update_library,
)
from jatpo.beliefs.compacting_belief import Compacting, CompactingBelief
from jatpo.beliefs.dense_belief import Dense
from jatpo.beliefs.named_belief import representation
from jatpo.beliefs.scaled_belief import Scaled, ScaledBelief
from jatpo.beliefs.support_belief import Support, SupportBelief

__all__ = [
    "Compacting",
    "CompactingBelief",
    "Dense",
    "Diagnostics",
    "Representation",
    "Scaled",
    "ScaledBelief",
    "Support",
    "SupportBelief",
    "each_model",
    "error_bound",
    "representation",
    "start_library",
    "update_library",
]
