"""What a trial is drawn from: the true models, the agents' library, and which models belong to a trial's library.

A trial draws its true model, then its library: the true model and others at random, `size` in all (the
whole library by default), or with `leave_out` all but the true model. A model that does not belong to a trial's
library has prior 0 there, so trials with different libraries run side by side. True model k and model k of the
library belong together; they differ only where agents are given a wrong library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo import validate
from jatpo.errors import JatpoError
from jatpo.evaluate.agents.protocol import Agent, Context, Parts, refusal
from jatpo.evaluate.world import final_states, joined
from jatpo.library import Library
from jatpo.model import POMDP
from jatpo.storage import pick

ARRAYS = ("library", "world", "final", "weights", "prior", "size", "leave_out")


@jax.tree_util.register_pytree_with_keys_class
class Scenario:
    """A library with true models, their weights, a prior, and how a trial's library is drawn. A pytree."""

    library: Library
    world: POMDP  # the true models joined: action k·A + a
    final: Array  # [K, X] bool, states of the true models that nothing leaves and that earn nothing
    weights: Array  # [K], how often each model is the true one
    prior: Array  # [K], the agents'
    size: Array  # [] int32, models in a trial's library
    leave_out: Array  # [] bool, whether the true model is missing from it

    simulated = False  # a SimulatorScenario has True

    def __init__(
        self,
        library: Library | Sequence[POMDP],
        truths: Library | Sequence[POMDP] | None = None,
        weights: Sequence[float] | np.ndarray | None = None,
        prior: Sequence[float] | np.ndarray | None = None,
        size: int | None = None,
        leave_out: bool = False,
    ) -> None:
        """By default the true models are the library's, drawn uniformly, and the prior is the library's."""
        library = library if isinstance(library, Library) else Library.from_models(library)
        count, dtype = library.num_models, library.prior.dtype
        size = count if size is None else size
        if not 1 <= size <= count:
            raise JatpoError(
                f"a trial's library cannot have {size} of {count} models: choose from 1 to {count}"
            )
        if leave_out and size < 2:
            raise JatpoError(f"leaving out the true model needs a library of at least 2 models, got {size}")
        uniform = np.full(count, 1 / count)
        weights = validate.distribution("weights", uniform if weights is None else np.asarray(weights), count)
        given = library.prior if prior is None else validate.distribution("prior", np.asarray(prior), count)
        world, final = _world(library.models if truths is None else _aligned(library, truths))
        self.library, self.world, self.final = library, world, final
        self.weights, self.prior = jnp.asarray(weights, dtype), jnp.asarray(given, dtype)
        self.size, self.leave_out = jnp.int32(size), jnp.asarray(leave_out)

    def replace(self, **arrays: Any) -> Scenario:
        """The same with other arrays, which may be traced; nothing is checked."""
        made = object.__new__(Scenario)
        vars(made).update(vars(self) | arrays)
        return made

    def __repr__(self) -> str:
        size, count = self.size, self.library.num_models
        missing = ", true model left out" if bool(self.leave_out) else ""
        return f"Scenario({self.library.name}: {size} of {count} models{missing})"

    def tree_flatten_with_keys(self) -> tuple:
        """The arrays; nothing is static."""
        return [(jax.tree_util.GetAttrKey(name), getattr(self, name)) for name in ARRAYS], None

    @classmethod
    def tree_unflatten(cls, aux: None, children: Sequence) -> Scenario:
        """A scenario of arrays or whatever stands for them."""
        made = object.__new__(cls)
        vars(made).update(zip(ARRAYS, children, strict=True))
        return made


@jax.jit
def _world(models: POMDP) -> tuple[POMDP, Array]:
    """The true models joined, and their final states."""
    return joined(models), final_states(models)


def _aligned(library: Library, truths: Library | Sequence[POMDP]) -> POMDP:
    """The true models, stacked; they must match the library's in number, states, actions and observations."""
    other = truths if isinstance(truths, Library) else Library.from_models(truths)
    ours, theirs = (part.models.reward.shape for part in (library, other))
    if ours != theirs or other.num_observations != library.num_observations:
        raise JatpoError(
            f"the true models have shape [K, X, A] = {list(theirs)} and the library {list(ours)}: they must agree"
        )
    return other.models


class Draw(NamedTuple):
    """One trial's true model [] and the prior over its library [K]."""

    truth: Array
    prior: Array


def draw(uniform: Array, scenario: Scenario) -> Draw:
    """One trial's true model and library from 1 + K uniform numbers or more; nested for growing `size`."""
    truth = pick(uniform[0], scenario.weights)
    count = scenario.prior.shape[0]
    numbers = jnp.arange(count, dtype=jnp.int32)
    order = jnp.where(numbers == truth, -1, uniform[1 : 1 + count])  # the true model comes first
    rank = jnp.sum(order[None, :] < order[:, None], axis=1, dtype=jnp.int32)
    member = (rank < scenario.size) & ~(scenario.leave_out & (numbers == truth))
    prior = jnp.where(member, scenario.prior, 0)
    return Draw(truth, prior / jnp.sum(prior))


def context_of(scenario: Scenario, solved: Mapping[str, Any], prior: Array) -> Context:
    """All there is to know; `permit` cuts it to what an agent declared. prior [K, N]."""
    actions = jnp.arange(scenario.library.num_actions, dtype=jnp.int32)
    return Context(actions, scenario.library, prior, dict(solved))


def needed(agent: Agent, solved: Mapping[str, Any], library: Any = None) -> Parts:
    """Of what is solved only what the agent needs; raises where something is missing.

    Nothing can be solved for simulators that are not made of tables: an empty tuple stands for what is not given.
    """
    if library is not None and library.simulated and library.tables is None:
        return {name: solved.get(name, ()) for name in agent.needs}
    missing = [name for name in agent.needs if name not in solved]
    if missing:
        raise JatpoError(
            f"agent '{agent.name}' needs solved {' and '.join(missing)}: solve the library first"
        )
    return {name: solved[name] for name in agent.needs}


def refuse(agent: Agent, library: Library) -> None:
    """Raise if the agent cannot run with this library."""
    reason = refusal(agent, library)
    if reason:
        raise JatpoError(f"agent '{agent.name}' cannot run: {reason}")
