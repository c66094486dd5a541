"""What a trial is drawn from: the true worlds, the agents' library, and who belongs to a trial's library.

A trial draws its true model, then its library: the true model and others at random, `size` in all (the
whole library by default), or with `leave_out` all but the true model. A model that is no part of a trial's
library has prior 0 there, so trials with different libraries run side by side. World k and model k of the
library belong together; they differ only when an experiment gives agents a wrong library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo import validate
from jatpo.errors import JatpoError
from jatpo.evaluate.agent import Agent, Knowledge
from jatpo.evaluate.world import final_states, joined
from jatpo.library import Library
from jatpo.model import POMDP
from jatpo.storage import pick


class Task(NamedTuple):
    """Everything a chunk of trials needs, as arrays."""

    world: POMDP  # the true models joined: action k·A + a
    over: Array  # [K, X] bool, states of the worlds that nothing leaves and that earn nothing
    library: Library
    solved: dict[str, Any]
    weights: Array  # [K], how often each model is the true one
    prior: Array  # [K], the agents'
    size: Array  # [] int32, models in a trial's library
    leave_out: Array  # [] bool, whether the true model is missing from it


class Draw(NamedTuple):
    """One trial's true model [] and the prior over its library [K]."""

    truth: Array
    prior: Array


def make_task(
    models: Sequence[POMDP] | Library,
    solved: dict[str, Any] | None = None,
    *,
    worlds: Sequence[POMDP] | None = None,
    weights: Sequence[float] | np.ndarray | None = None,
    prior: Sequence[float] | np.ndarray | None = None,
    size: int | None = None,
    leave_out: bool = False,
) -> Task:
    """A task on `models`; true models are drawn uniformly without `weights`, the prior is the library's.

    `worlds` are the true models where they differ from what the agents have in their library.
    """
    library = models if isinstance(models, Library) else Library.from_models(models, prior)
    count = library.num_models
    truths = library.models if worlds is None else _aligned(library, worlds)
    size = count if size is None else size
    if not 1 <= size <= count:
        raise JatpoError(f"a trial's library cannot have {size} of {count} models")
    if leave_out and size < 2:
        raise JatpoError("leaving out the true model needs a library of at least two models")
    dtype = library.prior.dtype
    world, over = _world(truths)
    uniform = np.full(count, 1 / count)
    weights = validate.distribution("weights", uniform if weights is None else np.asarray(weights), count)
    given = library.prior if prior is None else validate.distribution("prior", np.asarray(prior), count)
    return Task(
        world,
        over,
        library,
        solved or {},
        jnp.asarray(weights, dtype),
        jnp.asarray(given, dtype),
        jnp.int32(size),
        jnp.asarray(leave_out),
    )


@jax.jit
def _world(models: POMDP) -> tuple[POMDP, Array]:
    """The true models joined, and their final states."""
    return joined(models), final_states(models)


def _aligned(library: Library, worlds: Sequence[POMDP]) -> POMDP:
    """The true models, stacked; they must match the library's in number, states, actions and observations."""
    truths = Library.from_models(worlds)
    ours, theirs = (part.models.reward.shape for part in (library, truths))
    if ours != theirs or truths.num_observations != library.num_observations:
        raise JatpoError(
            f"the worlds have shape [K, X, A] = {list(theirs)} and the library {list(ours)}: they must agree"
        )
    return truths.models


def draw(uniform: Array, task: Task) -> Draw:
    """One trial's true model and library from 1 + K uniform numbers or more; nested for growing `size`."""
    truth = pick(uniform[0], task.weights)
    count = task.prior.shape[0]
    numbers = jnp.arange(count, dtype=jnp.int32)
    order = jnp.where(numbers == truth, -1, uniform[1 : 1 + count])  # the true model comes first
    rank = jnp.sum(order[None, :] < order[:, None], axis=1, dtype=jnp.int32)
    member = (rank < task.size) & ~(task.leave_out & (numbers == truth))
    prior = jnp.where(member, task.prior, 0)
    return Draw(truth, prior / jnp.sum(prior))


def knowledge_of(task: Task, parameters: Any, prior: Array) -> Knowledge:
    """All there is to know; `agent.permit` cuts it to what an agent declared. prior [K, N]."""
    actions = jnp.arange(task.library.num_actions, dtype=jnp.int32)
    return Knowledge(actions, parameters, task.library, prior, task.solved)


def for_agent(task: Task, agent: Agent) -> Task:
    """The task with only those solutions that the agent needs; raises where one is missing."""
    missing = [name for name in agent.needs if name not in task.solved]
    if missing:
        raise JatpoError(
            f"agent '{agent.name}' needs solved {' and '.join(missing)}: solve the library first"
        )
    return task._replace(solved={name: task.solved[name] for name in agent.needs})
