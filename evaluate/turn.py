"""One turn of an agent: it acts, somebody answers, it takes in the answer.

Rollouts, replays of recorded trials and `Player` all run this one function or its two halves. Who answers is an
argument: the world of a trial, a recording, a robot.

An agent that gives no probabilities is found out here. Shapes and dtypes are checked before anything runs
(`check_shapes`). The values are checked at every turn: `fault` is a code [N], 0 where all is well, which a loop carries
along and which `complain` turns into a sentence on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo.errors import JatpoError
from jatpo.evaluate.agents.protocol import Agent, Context, Memory
from jatpo.evaluate.noise import agent_keys

TOLERANCE = 1e-3  # by which the probabilities of the actions may miss 1 in all: above float32 noise
FAULTS = {
    1: "that are not finite",
    2: "of which one is negative",
    3: f"that do not sum to 1 within {TOLERANCE:g}",
}


class Turn(NamedTuple):
    """What an agent did in N trials, and what came of it."""

    probabilities: Array  # [A, N]
    fault: Array  # [N] int32, a key of `FAULTS` or 0
    outcome: Any  # of the one who answered


Answer = Callable[[Array], tuple[Array, Array | None, Any]]
"""From probabilities [A, N] to actions [N], what is seen then [N] or None, and anything else."""


def turn(agent: Agent, context: Context, memory: Memory, keys: Array, answer: Answer) -> tuple[Memory, Turn]:
    """One turn of N trials; keys [N] are those of the step."""
    act_keys, update_keys = agent_keys(keys)
    probabilities, wrong = decide(agent, context, memory, act_keys)
    actions, seen, outcome = answer(probabilities)
    memory = agent.update(update_keys, context, memory, actions, seen)
    return memory, Turn(probabilities, wrong, outcome)


def decide(agent: Agent, context: Context, memory: Memory, keys: Array) -> tuple[Array, Array]:
    """The first half of a turn: the probabilities of the actions [A, N], and what is wrong with them [N]."""
    probabilities = agent.act(keys, context, memory)
    return probabilities, fault(probabilities)


def fault(probabilities: Array) -> Array:
    """What is wrong with probabilities [A, N]: a key of `FAULTS` or 0 [N] int32."""
    total = jnp.sum(probabilities, axis=0)
    lowest = jnp.min(probabilities, axis=0)
    wrong = jnp.where(jnp.abs(total - 1) <= TOLERANCE, 0, 3)
    wrong = jnp.where(lowest < 0, 2, wrong)
    return jnp.where(jnp.isfinite(total), wrong, 1).astype(jnp.int32)


def complain(agent: Agent, code: int, where: str) -> None:
    """Raise for a code of `fault` that is not 0."""
    if code:
        raise JatpoError(
            f"agent '{agent.name}' gives probabilities {FAULTS[code]} {where}: "
            "make `act` return a distribution over the actions"
        )


@partial(
    jax.jit, static_argnames="trials"
)  # only its shapes are asked for, and traced once for an agent's class
def _one_turn(agent: Agent, context: Context, seen: tuple, trials: int) -> tuple:
    """The memory, the probabilities, the memory after a turn, and the report."""
    keys = jax.random.split(jax.random.key(0), trials)
    memory = agent.init(keys, context, seen[0])
    after = agent.update(keys, context, memory, jnp.zeros(trials, jnp.int32), seen[1])
    return memory, agent.act(keys, context, memory), after, agent.report(context, memory)


def check_shapes(agent: Agent, context: Context, seen: tuple[Array | None, Array | None], trials: int) -> Any:
    """Refuse an agent whose probabilities or memory have a wrong shape or type; returns the shapes of its report.

    `seen` is what the agent sees before the first action and after one.
    """
    memory, probabilities, after, report = _one_turn.eval_shape(agent, context, seen, trials)
    num_actions = context.actions.shape[0]
    if getattr(probabilities, "shape", None) != (num_actions, trials):
        raise JatpoError(
            f"agent '{agent.name}' gives {_shape(probabilities)} for {num_actions} actions and {trials} trials: `act` "
            f"must return an array of shape [{num_actions}] for each trial, with the trial on the last axis"
        )
    if not jnp.issubdtype(probabilities.dtype, jnp.floating):
        raise JatpoError(
            f"agent '{agent.name}' gives probabilities of type {probabilities.dtype}: return floating-point numbers"
        )
    _check_memory(agent, memory, after)
    return report


def _shape(value: Any) -> str:
    if hasattr(value, "shape"):
        return f"probabilities of shape {list(value.shape)}"
    return f"{type(value).__name__} in place of an array of probabilities"


def _check_memory(agent: Agent, before: Memory, after: Memory) -> None:
    """The memory must keep its structure, shapes and types."""
    ours, theirs = (jax.tree_util.tree_flatten_with_path(part)[0] for part in (before, after))
    old, new = ({jax.tree_util.keystr(path): leaf for path, leaf in part} for part in (ours, theirs))
    if jax.tree.structure(before) != jax.tree.structure(after):
        names = sorted(set(old) ^ set(new)) or ["its type"]
        raise JatpoError(
            f"agent '{agent.name}' changes the structure of its memory in `update` ({', '.join(names[:3])}): "
            "return what `init` returns"
        )
    for name, leaf in old.items():
        other = new[name]
        if (leaf.shape, leaf.dtype) != (other.shape, other.dtype):
            raise JatpoError(
                f"agent '{agent.name}' changes its memory{name} in `update` from {leaf.dtype}{list(leaf.shape)} "
                f"to {other.dtype}{list(other.shape)}: keep shape and type"
            )


def whole_number(kind: str, value: Any, size: int) -> int:
    """`value` as one of the numbers 0 to size - 1; raises if it is none."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool | np.bool_):
        found = np.asarray(value)
        if not (found.ndim == 0 and np.issubdtype(found.dtype, np.integer)):
            raise JatpoError(
                f"{kind} {value!r} is not an integer: give a number from 0 to {size - 1} or a name"
            )
    number = int(value)
    if not 0 <= number < size:
        raise JatpoError(f"there is no {kind} {number}: choose from 0 to {size - 1}")
    return number
