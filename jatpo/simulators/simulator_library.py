"""K simulators side by side, as `jatpo.Library` has K tables: labels, prior and horizon, and groups for `vmap`.

Entries may differ in class, size and state as long as their actions and observations agree. Those that agree in class,
sizes and fixed fields are one group, stacked along a leading axis: K entries of one kind run under one `vmap`, others
in a few groups. Beliefs of a library are a tuple, one element for each group.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo import validate
from jatpo.disk import digest
from jatpo.errors import JatpoError
from jatpo.library import HORIZON, Library
from jatpo.model import Names
from jatpo.simulators.simulator_protocol import (
    Simulator,
    State,
    axes,
    stack_entries,
    take_entry,
)
from jatpo.simulators.tabular_simulator import TabularSimulator, joined_table, tabular_entries


@jax.tree_util.register_pytree_with_keys_class
@dataclass(frozen=True, eq=False, repr=False)
class SimulatorLibrary:
    """Simulators with the same actions and observations. Make one with `from_simulators` or `from_tables`."""

    groups: tuple[Simulator, ...]  # stacked
    prior: Array  # [K]
    members: tuple[tuple[int, ...], ...]  # the numbers of each group's entries
    name: str = "simulators"
    horizon: int = HORIZON
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tables: Library | None = None  # of which it was made, on the host

    simulated = True  # a Library has False
    published = None  # settings of solvers that came with it; there are none
    num_states = 0  # of tables to solve; there are none

    @classmethod
    def from_simulators(
        cls,
        simulators: Sequence[Simulator],
        prior: Sequence[float] | np.ndarray | None = None,
        *,
        name: str = "simulators",
        horizon: int = HORIZON,
        labels: Sequence[str] | None = None,
    ) -> SimulatorLibrary:
        """A library of `simulators`, checked; the prior is uniform unless given."""
        count = len(simulators)
        if not count:
            raise JatpoError(f"library '{name}' has no simulators: add at least one")
        labels = tuple(map(str, range(count))) if labels is None else tuple(labels)
        if len(labels) != count:
            raise JatpoError(
                f"library '{name}' has {count} simulators and {len(labels)} labels: give one each"
            )
        kinds: dict[Any, list[int]] = {}
        for k, each in enumerate(simulators):
            kinds.setdefault(_kind(each), []).append(k)
        for k, each in enumerate(simulators):
            _check(each, simulators[0], labels[k], labels[0])
        groups = tuple(stack_entries([simulators[k] for k in numbers]) for numbers in kinds.values())
        weights = np.full(count, 1 / count) if prior is None else np.asarray(prior)
        weights = validate.distribution(f"the prior of {name}", weights, count)
        dtype = jnp.asarray(simulators[0].discount, float).dtype
        members = tuple(map(tuple, kinds.values()))
        return cls(groups, jnp.asarray(weights, dtype), members, name, horizon, labels)

    @classmethod
    def from_tables(cls, library: Library) -> SimulatorLibrary:
        """The tables of a library as simulators."""
        made = cls.from_simulators(
            tabular_entries(library.models),
            library.host_prior,
            name=library.name,
            horizon=library.horizon,
            labels=library.labels,
        )
        return dataclasses.replace(made, tables=library)

    @property
    def num_models(self) -> int:
        return sum(map(len, self.members))

    @property
    def num_actions(self) -> int:
        return self.groups[0].num_actions

    @property
    def host_prior(self) -> np.ndarray:
        """The prior over models [K] in NumPy float64."""
        return np.asarray(self.prior, np.float64)

    def entry(self, k: int) -> Simulator:
        """Simulator k."""
        if not 0 <= k < self.num_models:
            raise JatpoError(
                f"library '{self.name}' has no simulator {k}: choose from 0 to {self.num_models - 1}"
            )
        for group, numbers in zip(self.groups, self.members, strict=True):
            if k in numbers:
                return take_entry(group, numbers.index(k))
        raise AssertionError(k)

    def __len__(self) -> int:
        return self.num_models

    def model_hashes(self) -> list[str]:
        """A short digest of every entry's class, sizes and parameters, as `Library.model_hashes`."""
        entries = [self.entry(k) for k in range(self.num_models)]
        return [digest((repr(jax.tree.structure(each)), *jax.tree.leaves(each)))[:16] for each in entries]

    @property
    def names(self) -> tuple[Names, ...]:
        """The names of the actions, for every entry."""
        return (Names(actions=self.groups[0].actions or None),) * self.num_models

    def example_observations(self, trials: int) -> Any:
        """Zeros of the shape of the observations of N trials [..., N]."""
        entry = self.entry(0)
        shapes = _seen(entry)
        return jax.tree.map(lambda leaf: jnp.zeros((*leaf.shape, trials), leaf.dtype), shapes)

    def each(self, function: Callable[..., Any], *parts: Any, shared: Sequence[Any] = ()) -> tuple[Any, ...]:
        """`function(simulator, part..., shared...)` of all entries, as a tuple of groups; parts are such tuples."""
        found = []
        for place, group in enumerate(self.groups):
            own = [part[place] for part in parts]
            places = (axes(group), *(0 for _ in own), *(None for _ in shared))
            found.append(jax.vmap(function, in_axes=places)(group, *own, *shared))
        return tuple(found)

    def ordered(self, parts: Sequence[Any]) -> Any:
        """A tuple of groups [k, ...] whose shapes agree as one array [K, ...], in the order of the labels."""
        numbers = np.concatenate([np.asarray(each, int) for each in self.members])
        order = np.argsort(numbers)
        if np.array_equal(order, np.arange(len(order))):
            return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[order], *parts)

    def grouped(self, array: Array) -> tuple[Array, ...]:
        """An array [K, ...] as a tuple of groups."""
        return tuple(array[np.asarray(numbers)] for numbers in self.members)

    def start(self, key: Array, truth: Array) -> tuple[State, ...]:
        """A start state of entry `truth` [], as a tuple of groups of which only that of the entry counts."""
        return tuple(take_entry(group, place).initial(key) for group, place, _ in self._places(truth))

    def advance(
        self, key: Array, truth: Array, states: tuple[State, ...], action: Array
    ) -> tuple[tuple[State, ...], Any, Array, Array]:
        """(states, observation, reward [], done []) of one step of entry `truth`."""
        to_step, to_see = jax.random.split(key)
        arrived, found, own = [], [], []
        for (group, place, mine), state in zip(self._places(truth), states, strict=True):
            entry = take_entry(group, place)
            following, reward, done = entry.step(to_step, state, action)
            seen = entry.observe(to_see, following, action)
            arrived.append(following)
            found.append((seen, jnp.asarray(reward, self.prior.dtype), jnp.asarray(done, bool)))
            own.append(mine)
        answer = found[0]
        for other, mine in zip(found[1:], own[1:], strict=True):
            answer = jax.tree.map(lambda new, old, mine=mine: jnp.where(mine, new, old), other, answer)
        return (tuple(arrived), *answer)

    def discounts(self) -> Array:
        """The discount of every entry [K]."""
        return self.ordered(
            [jnp.broadcast_to(group.discount, (len(own),)) for group, own in self._with_members()]
        )

    def _with_members(self) -> list[tuple[Simulator, tuple[int, ...]]]:
        return list(zip(self.groups, self.members, strict=True))

    def _places(self, truth: Array) -> list[tuple[Simulator, Array, Array]]:
        """Each group with the place of entry `truth` in it (0 where it is in another) and whether it is there."""
        found = []
        for group, numbers in self._with_members():
            place = np.zeros(self.num_models, np.int32)
            place[list(numbers)] = np.arange(len(numbers))
            mine = np.isin(np.arange(self.num_models), numbers)
            found.append((group, jnp.asarray(place)[truth], jnp.asarray(mine)[truth]))
        return found

    def __repr__(self) -> str:
        kinds = ", ".join(f"{len(own)} x {type(group).__name__}" for group, own in self._with_members())
        return f"SimulatorLibrary('{self.name}': {kinds}, {self.num_actions} actions, horizon {self.horizon})"

    def tree_flatten_with_keys(self) -> tuple:
        children = (
            (jax.tree_util.GetAttrKey("groups"), self.groups),
            (jax.tree_util.GetAttrKey("prior"), self.prior),
        )
        return children, self.members

    @classmethod
    def tree_unflatten(cls, aux: tuple, children: Sequence) -> SimulatorLibrary:
        groups, prior = children
        return cls(groups, prior, aux)


def simulators_of(library: Any) -> SimulatorLibrary:
    """A library of simulators as it is, one of tables as simulators of them; also of traced arrays."""
    if library.simulated:
        return library
    models = library.models
    numbers = jnp.arange(models.reward.shape[0], dtype=jnp.int32)
    group = TabularSimulator(joined_table(models), numbers, models.discount, models.num_actions)
    return SimulatorLibrary((group,), library.prior, (tuple(range(len(numbers))),))


def _kind(simulator: Simulator) -> Any:
    """What entries of one group have in common: class, fixed fields and shapes; the shared fields themselves."""
    own = {each.name for each in dataclasses.fields(simulator) if each.name not in simulator.shared}  # pyright: ignore
    traced = {name: getattr(simulator, name) for name in sorted(own)}
    leaves = [(jnp.shape(leaf), jnp.result_type(leaf)) for leaf in jax.tree.leaves(traced)]
    shared = tuple(id(getattr(simulator, name)) for name in simulator.shared)
    return jax.tree.structure(simulator), tuple(map(str, leaves)), shared


def _states(simulator: Simulator) -> tuple[Any, Any]:
    """The shapes of a state and of the state after a step."""

    def run(key: Array) -> tuple[Any, Any]:
        state = simulator.initial(key)
        return state, simulator.step(key, state, jnp.int32(0))[0]

    return jax.eval_shape(run, jax.random.key(0))


def _seen(simulator: Simulator) -> Any:
    """The shape of an observation."""
    key, state = jax.random.key(0), _states(simulator)[0]
    return jax.eval_shape(lambda key, state: simulator.observe(key, state, jnp.int32(0)), key, state)


def _check(simulator: Simulator, first: Simulator, label: str, first_label: str) -> None:
    """Refuse a simulator that does not fit the first one, or whose states change their shape."""
    state, arrived = _states(simulator)
    if _spelled(state) != _spelled(arrived):
        raise JatpoError(
            f"simulator '{label}' begins with a state {_spelled(state)} and goes to {_spelled(arrived)}: "
            "make `step` return what `initial` returns"
        )
    if simulator.num_actions != first.num_actions:
        raise JatpoError(
            f"simulator '{label}' has {simulator.num_actions} actions and '{first_label}' {first.num_actions}: "
            "make them agree"
        )
    seen, theirs = _seen(simulator), _seen(first)
    if _spelled(seen) != _spelled(theirs):
        raise JatpoError(
            f"simulator '{label}' is seen as {_spelled(seen)} and '{first_label}' as {_spelled(theirs)}: "
            "make them agree"
        )


def _spelled(shapes: Any) -> str:
    """Types and shapes as text, by their place in the tree."""
    found = jax.tree_util.tree_flatten_with_path(shapes)[0]
    return ", ".join(
        f"{jax.tree_util.keystr(path)} {leaf.dtype}{list(leaf.shape)}".strip() for path, leaf in found
    )
