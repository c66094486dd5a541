"""A witness: one agent acts, another one answers the same history. For comparing filters and classifiers by pairs.

The witness draws its random numbers from keys of its own, so what it is does not change what happens: all witnesses of
one actor see the same actions and observations, trial by trial. What is reported is the witness's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
from jax import Array

from jatpo.evaluate.agents.protocol import Agent, Context, agent_class

APART = 7  # folded into the keys of the witness


class Both(NamedTuple):
    """What the actor and the witness remember."""

    actor: Any
    witness: Any


@agent_class
class Witness:
    """`actor` acts, `witness` takes in what was done and seen, and reports. Both know the library."""

    actor: Any = ()  # Agents, and pytrees as all of them
    witness: Any = ()
    name: str = "witness"
    knows: str = "library"
    sees = "observation"
    plays = ("tables", "simulators")

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.actor.needs, *self.witness.needs)))

    def refuses(self, library: Any) -> str | None:
        """What either refuses."""
        return self.actor.refuses(library) or self.witness.refuses(library)

    def init(self, keys: Array, context: Context, seen: Any) -> Both:
        witness = self.witness.init(_apart(keys), context, seen)
        return Both(self.actor.init(keys, context, seen), witness)

    def act(self, keys: Array, context: Context, memory: Both) -> Array:
        """The actor's probabilities [A, N]."""
        return self.actor.act(keys, context, memory.actor)

    def update(self, keys: Array, context: Context, memory: Both, actions: Array, seen: Any) -> Both:
        """Each by its own filter."""
        witness = self.witness.update(_apart(keys), context, memory.witness, actions, seen)
        return Both(self.actor.update(keys, context, memory.actor, actions, seen), witness)

    def report(self, context: Context, memory: Both) -> dict[str, Array]:
        """The witness's."""
        return self.witness.report(context, memory.witness)


def witnessed(actor: Agent, witness: Agent) -> Witness:
    """`witness` at the histories of `actor`, under its own name."""
    return Witness(actor=actor, witness=witness, name=witness.name)


def _apart(keys: Array) -> Array:
    return jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, APART)
