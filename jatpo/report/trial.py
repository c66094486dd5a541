"""One trial of a rollout with all that a replay needs, for the price of recording little more than returns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from jatpo.errors import JatpoError
from jatpo.report.setting import Setting

if TYPE_CHECKING:
    from jax import Array

    from jatpo.evaluate.agent import Agent, Functions, Knowledge
    from jatpo.evaluate.rollout import Trials
    from jatpo.evaluate.task import Task
    from jatpo.model import POMDP

LEADING = "leading belief"
ALWAYS = ("rewards", "actions", "observations", "probabilities", "states")


def roll(place: Setting, agent: Agent, seed: int, trial: int, model: int | None, horizon: int) -> Trials:
    """The records of one trial [1, ...]; with `model` as the true one if it is given."""
    import jax

    from jatpo.evaluate.rollout import chunk_size, reported, run_chunks

    task = place.task if model is None else _forced(place, model)
    chunk, slot = divmod(trial, chunk_size(task.library))
    watched = dataclasses.replace(agent, **_watching(agent.functions), parameters=(agent.parameters, slot))
    known = reported(watched, task)
    told = [name for name in ("posterior", "entropy", LEADING) if name in known]
    runs = run_chunks(jax.random.key(seed), watched, task, horizon, [chunk], (*ALWAYS, *told))
    ((_, trials),) = runs
    records = {
        name: part if name == LEADING else part[slot : slot + 1] for name, part in trials.records.items()
    }
    one = {name: getattr(trials, name)[slot : slot + 1] for name in trials._fields if name != "records"}
    return trials._replace(**one, records=records)


def _forced(place: Setting, model: int) -> Task:
    """The task with `model` as the true one in every trial."""
    import jax.numpy as jnp

    count = len(place.models)
    if not 0 <= model < count:
        raise JatpoError(f"{place.name} has models 0 to {count - 1}, and model {model} was asked for")
    weights = place.task.weights
    return place.task._replace(weights=jnp.asarray(np.eye(count)[model], weights.dtype))


@lru_cache(maxsize=64)
def _watching(agent: Functions) -> dict[str, Callable]:
    """The functions of an agent whose parameters are (its own, slot), with one thing more to report:

    of trial `slot` alone the belief of the model that leads there [X, 1]. Those of a whole chunk of trials
    would take gigabytes. The slot is traced, so that all trials share a compiled program.
    """

    def own(knowledge: Knowledge) -> Knowledge:
        return knowledge._replace(parameters=knowledge.parameters[0])

    def report(knowledge: Knowledge, memory: Any) -> dict[str, Any]:
        told = agent.report(own(knowledge), memory)
        posterior, beliefs = told.get("posterior"), told.get("beliefs")
        if posterior is None or beliefs is None or (posterior.ndim, beliefs.ndim) != (2, 3):
            return told
        return {**told, LEADING: _leading(posterior, beliefs, knowledge.parameters[1])}

    return {
        "init": lambda keys, knowledge, seen: agent.init(keys, own(knowledge), seen),
        "policy": lambda keys, knowledge, memory: agent.policy(keys, own(knowledge), memory),
        "observe": lambda knowledge, *more: agent.observe(own(knowledge), *more),
        "report": report,
    }


def _leading(posterior: Array, beliefs: Array, slot: Array | int) -> Array:
    """Of posteriors [K, N] and beliefs [K, X, N] the belief of the leading model in one trial [X, 1]."""
    import jax.numpy as jnp

    return jnp.take(beliefs[jnp.argmax(posterior[:, slot])], jnp.asarray(slot)[None], axis=1)


def end(model: POMDP, states: np.ndarray) -> int:
    """The step at which a state is reached that earns nothing and is left no more; the last one otherwise."""
    import jax.numpy as jnp

    from jatpo.belief import predict

    last = int(states[-1])
    here = jnp.asarray(np.eye(1, model.num_states, last)[0], model.dtype)
    stays = all(float(predict(model, here, jnp.int32(a))[last]) == 1.0 for a in range(model.num_actions))
    if not stays or np.asarray(model.reward[last]).any():
        return len(states) - 1
    return int(np.argmax(states == last))
