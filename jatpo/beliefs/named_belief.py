"""Representations of beliefs as they are written in options: dense, scaled, support=64, compacting=64."""

from __future__ import annotations

from jatpo.beliefs.belief_protocol import Representation
from jatpo.beliefs.compacting_belief import Compacting
from jatpo.beliefs.dense_belief import Dense
from jatpo.beliefs.scaled_belief import Scaled
from jatpo.beliefs.support_belief import Support
from jatpo.errors import JatpoError, shown, unknown

OF_STATES = {"dense": Dense, "scaled": Scaled}
OF_LISTS = {"support": Support, "compacting": Compacting}


def representation(text: str) -> Representation:
    """The representation that `text` names, lists with their capacity."""
    name, _, number = text.strip().partition("=")
    if name in OF_STATES and not number:
        return OF_STATES[name]()
    if name not in OF_LISTS:
        raise unknown("representation of beliefs", text, (*OF_STATES, *(f"{own}=64" for own in OF_LISTS)))
    if not (number.isascii() and number.isdigit() and int(number[:10]) > 0):
        raise JatpoError(
            f"belief '{shown(text)}' has no capacity: write how many states a list holds, as in {name}=64"
        )
    return OF_LISTS[name](int(number[:10]))
