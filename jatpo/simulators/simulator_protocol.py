"""What a simulator is: pure functions of one state, from which everything else is made by `vmap`.

    state               = simulator.initial(key)
    state, reward, done = simulator.step(key, state, action)
    observation         = simulator.observe(key, state, action)               on arriving in `state` by `action`
    log probability     = simulator.log_observation(state, action, observation)

A state is a pytree of small arrays, an observation an integer or a pytree. The reward is that of acting in the state
that is left. The four methods are enough for filters, rollouts and the planner. More can be said where it is known:

    final        whether an episode ends in a state; filters rule such states out, since the agent still acts
    starts       all start states with their probabilities, if they are not too many
    guided_start a start state that is likely given what was seen after the first action, for filters
    successors   all states that may follow, with their probabilities, for filters that look before they move
    code         a number for every state, for filters that merge equal ones
    preferences  what an agent would do that knows the model and the state, for mixtures and rollouts
    features     an observation as numbers, for networks
    draw_state   a state as text, for people

A simulator is a frozen dataclass and a pytree: its fields are its parameters, and they are traced, so that K entries of
one class run under one `vmap`. Fields made by `fixed` are part of the compiled program. Fields named in `shared` are
the same in all entries of a library and are stored once.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.errors import JatpoError
from jatpo.pytree import pytree

State = Any
Observed = Any
Class = TypeVar("Class", bound=type)


def fixed(*, default: Any = dataclasses.MISSING) -> Any:
    """A field that is part of the compiled program, such as a size."""
    return dataclasses.field(default=default, metadata={"static": True})


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field, fixed))
def simulator_class(cls: Class) -> Class:
    """Make a frozen dataclass and a pytree of a class with the methods of a simulator."""
    return pytree(dataclasses.dataclass(frozen=True, eq=False)(cls))


class Simulator:
    """One model as functions of one state. Subclasses are made with `simulator_class`."""

    shared: ClassVar[tuple[str, ...]] = ()  # fields that all entries of a library have in common
    lists_successors: ClassVar[bool] = False  # whether `successors` is written
    lists_starts: ClassVar[bool] = False  # whether `starts` is written
    guides_starts: ClassVar[bool] = False  # whether `guided_start` is written
    actions: ClassVar[tuple[str, ...]] = ()  # names for people
    discount: Any = 0.95

    @property
    def num_actions(self) -> int:
        """The number of actions; that of their names unless a class says otherwise."""
        return len(self.actions)

    def initial(self, key: Array) -> State:
        """A start state."""
        raise _missing(self, "initial")

    def step(self, key: Array, state: State, action: Array) -> tuple[State, Array, Array]:
        """The next state, the reward of acting in `state` [] and whether the episode ends now []."""
        raise _missing(self, "step")

    def observe(self, key: Array, state: State, action: Array) -> Observed:
        """What is seen on arriving in `state` by `action`."""
        raise _missing(self, "observe")

    def log_observation(self, state: State, action: Array, observation: Observed) -> Array:
        """The log probability of `observation` on arriving in `state` by `action` []."""
        raise _missing(self, "log_observation")

    def final(self, state: State) -> Array:
        """Whether an episode ends in this state [] bool."""
        del state
        return jnp.zeros((), bool)

    def starts(self) -> tuple[State, Array]:
        """All start states [S, ...] and their probabilities [S]."""
        raise _missing(self, "starts")

    def guided_start(self, key: Array, action: Array, observation: Observed) -> tuple[State, Array]:
        """A start state drawn with the first action and observation in view, and a logarithm [].

        The logarithm is that of the state's probability at the start divided by that of being drawn here, which must be
        positive for every start state that can lead to the observation.
        """
        raise _missing(self, "guided_start")

    def successors(self, state: State, action: Array) -> tuple[State, Array]:
        """All states that may follow [S, ...] and their probabilities [S]; 0 where a place is not used."""
        raise _missing(self, "successors")

    def code(self, state: State) -> Array:
        """A number for the state [] int32, another for every other state."""
        raise _missing(self, "code")

    def preferences(self, state: State) -> Array:
        """The probabilities of the actions [A] of an agent that knows the model and the state."""
        raise _missing(self, "preferences")

    def features(self, observation: Observed) -> Array:
        """An observation as numbers [F]."""
        leaves = jax.tree.leaves(observation)
        return jnp.concatenate([jnp.ravel(leaf).astype(jnp.float32) for leaf in leaves])

    def draw_state(self, state: State) -> str:
        """A state as text."""
        return str(state)


def _missing(simulator: Simulator, name: str) -> JatpoError:
    return JatpoError(f"simulator {type(simulator).__name__} has no method {name}: write it")


def axes(group: Simulator) -> Any:
    """The `in_axes` of a stacked simulator: its own fields have a leading axis, shared ones have not."""
    places = {name: None if name in group.shared else 0 for name in _traced(group)}
    return dataclasses.replace(group, **places)  # pyright: ignore[reportArgumentType]


def take_entry(group: Simulator, place: Array | int) -> Simulator:
    """One entry of a stacked simulator; `place` may be traced."""
    own = [name for name in _traced(group) if name not in group.shared]
    parts = {name: jax.tree.map(lambda leaf: leaf[place], getattr(group, name)) for name in own}
    return dataclasses.replace(group, **parts)  # pyright: ignore[reportArgumentType]


def stack_entries(simulators: list[Any]) -> Simulator:
    """Simulators of one class and one shape as one, with a leading axis in every field that is not shared."""
    first = simulators[0]
    own = [name for name in _traced(first) if name not in first.shared]
    parts = {}
    for name in own:
        columns = [getattr(each, name) for each in simulators]
        parts[name] = jax.tree.map(
            lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *columns
        )
    return dataclasses.replace(first, **parts)


def _traced(simulator: Any) -> list[str]:
    return [each.name for each in dataclasses.fields(simulator) if not each.metadata.get("static")]
