"""What one model's policy is, for beliefs of any filter: `policy.probabilities(filter, simulator, belief, part)` [A].

    Usual()              alpha vectors where the models are tables, else the simulator's own preferences
    AlphaVectors()       the action of the best vector, of what the solvers found
    StateValues()        QMDP: the action with the largest expected value of the MDP beneath
    Preferences(f)       sum_i w_i f(simulator, x_i), by default the simulator's `preferences`
    BeliefFunction(f)    f(simulator, belief), such as a trained network

A policy is a frozen dataclass without arrays; `needs` names what has to be solved for it, and `parts` takes from that
what belongs to each group of the library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.beliefs import Representation
from jatpo.evaluate.agents.protocol import Context
from jatpo.mdp import TIE
from jatpo.simulators import Simulator, SimulatorLibrary
from jatpo.solve.policy import Policy, scores_to_probabilities
from jatpo.ties import share_best


class SimulatorPolicy:
    """What policies have in common."""

    needs: tuple[str, ...] = ()
    takes: str = ""  # the name of what `part` is

    def parts(self, context: Context, library: SimulatorLibrary) -> tuple[Any, ...]:
        """What `probabilities` gets of every group, stacked as the group is."""
        if not self.takes:
            return tuple(() for _ in library.groups)
        found = context.solved[self.takes]
        if len(library.members) == 1:
            return (found,)
        places = map(jnp.array, library.members)
        return tuple(jax.tree.map(lambda leaf, own=own: leaf[own], found) for own in places)

    def probabilities(self, filter: Representation, simulator: Simulator, belief: Any, part: Any) -> Array:
        """pi(a | b) [A]."""
        raise NotImplementedError

    def refuses(self, library: Any) -> str | None:
        """Why it cannot act in this library, or None."""
        if self.takes and not has_tables(library):
            return f"{type(self).__name__} needs tables, and library {library.name} has none: use Preferences"
        return None


@dataclass(frozen=True)
class AlphaVectors(SimulatorPolicy):
    """The actions of the best alpha vectors, shared among those that tie."""

    needs = ("policies",)
    takes = "policies"

    def probabilities(self, filter: Representation, simulator: Simulator, belief: Any, part: Policy) -> Array:
        scores = filter.expectation(belief, part.vectors)
        return scores_to_probabilities(scores, part.actions, simulator.num_actions)


@dataclass(frozen=True)
class StateValues(SimulatorPolicy):
    """The actions with the largest sum_x b(x) q(x, a)."""

    needs = ("q",)
    takes = "q"

    def probabilities(self, filter: Representation, simulator: Simulator, belief: Any, part: Array) -> Array:
        return share_best(filter.expectation(belief, part.T), TIE)


@dataclass(frozen=True)
class Preferences(SimulatorPolicy):
    """The preferences in every state, weighed by the particles."""

    function: Callable[[Any, Any], Array] | None = None

    def probabilities(self, filter: Representation, simulator: Simulator, belief: Any, part: Any) -> Array:
        own = simulator.preferences if self.function is None else None
        of_state = own or (lambda state: self.function(simulator, state))  # pyright: ignore[reportOptionalCall]
        return belief.weights @ jax.vmap(of_state)(belief.states)

    def refuses(self, library: Any) -> str | None:
        if not library.simulated:
            return f"Preferences needs simulators, and library {library.name} has tables: use AlphaVectors"
        return None


@dataclass(frozen=True)
class BeliefFunction(SimulatorPolicy):
    """Any function of the belief."""

    function: Callable[[Any, Any], Array]

    def probabilities(self, filter: Representation, simulator: Simulator, belief: Any, part: Any) -> Array:
        return self.function(simulator, belief)


@dataclass(frozen=True)
class Usual(SimulatorPolicy):
    """Alpha vectors of tables, preferences of simulators."""

    needs = ("policies",)

    def parts(self, context: Context, library: SimulatorLibrary) -> tuple[Any, ...]:
        chosen = AlphaVectors() if context.solved["policies"] else Preferences()
        return chosen.parts(context, library)

    def probabilities(self, filter: Representation, simulator: Simulator, belief: Any, part: Any) -> Array:
        chosen = AlphaVectors() if part else Preferences()
        return chosen.probabilities(filter, simulator, belief, part)


def has_tables(library: Any) -> bool:
    """Whether the models of a library of any kind are tables."""
    return not library.simulated or library.tables is not None
