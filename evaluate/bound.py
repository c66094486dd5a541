"""The loss-bound experiment: ATPO's summed loss beside the bound of the paper's proposition, trial by trial.

The comparator q is certain of the true model. A trial is replayed from its actions and observations through
the agent's own filter; losses are those of `losses`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo.evaluate import losses, mixture
from jatpo.evaluate.agent import Agent, Knowledge
from jatpo.evaluate.prepare import Prepared, Session
from jatpo.evaluate.task import Task, knowledge_of

BOUNDS = ("bound_eta_paper", "bound_eta_consistent", "bound_printed")


class Sums(NamedTuple):
    """Over the steps of a trial: L_t(p_t), L_t(q), KL(q || p_t), each []."""

    mixture: Array
    comparator: Array
    divergence: Array


@jax.jit
def replay(
    task: Task, parameters: mixture.Settings, truth: Array, actions: Array, observations: Array
) -> Sums:
    """The sums of one trial with actions and observations [T]."""
    knowledge = knowledge_of(task, parameters, task.prior[:, None])
    model, policy = jax.tree.map(lambda leaf: leaf[truth], (task.library.models, task.solved["policies"]))
    certain = (jnp.arange(task.prior.shape[0], dtype=jnp.int32) == truth).astype(task.prior.dtype)

    def step(memory: mixture.Mixture, taken: tuple[Array, Array]) -> tuple[mixture.Mixture, Sums]:
        action, seen = taken
        policies = mixture.model_policies(knowledge, memory)[..., 0]  # [K, A]
        posterior = jnp.exp(memory.log_posterior[:, 0])
        loss = losses.losses(model, policy, memory.beliefs[truth, :, 0])
        ours = losses.mixture_loss(posterior, policies, loss)
        best = losses.mixture_loss(certain, policies, loss)
        after = mixture.observe(knowledge, memory, action[None], seen[None])
        return after, Sums(ours, best, losses.divergence(certain, posterior))

    start = _start(knowledge)
    _, sums = jax.lax.scan(step, start, (actions, observations))
    return Sums(*(jnp.sum(part) for part in sums))


def _start(knowledge: Knowledge) -> mixture.Mixture:
    keys = jax.random.key(0)[None]  # not used: the mixture starts without chance
    return mixture.init(keys, knowledge, None)


def loss_bound(prepared: Prepared, agent: Agent, trials: int, session: Session) -> list[dict[str, Any]]:
    """One row per trial: the summed loss, and the bound for both choices of η and as printed."""
    session.open_part(prepared.part, prepared)
    record = ("actions", "observations")
    run = session.run(prepared.part, agent, prepared.task, prepared.horizon, trials, record)
    parameters = jax.tree.map(jnp.asarray, agent.parameters)
    sums = partial(replay, prepared.task, parameters)
    rows = []
    for number in range(trials):
        truth = int(run.truth[number])
        taken = (jnp.asarray(run.records[name][number]) for name in record)
        found = Sums(*(np.asarray(part).item() for part in sums(jnp.int32(truth), *taken)))
        label = {"domain": prepared.name, "rules": prepared.rules, "trial": number, "model": truth}
        rows.append({**label, "steps": prepared.horizon, **_bounds(prepared, truth, found)})
        if session.progress:
            session.progress(number + 1, trials, agent=agent.name)
    return rows


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per domain: means over its trials, and the largest loss."""
    found = []
    for domain in dict.fromkeys(row["domain"] for row in rows):
        own = [row for row in rows if row["domain"] == domain]
        names = ("loss", "comparator_loss", "divergence", *BOUNDS)
        means = {name: float(np.mean([row[name] for row in own])) for name in names}
        largest = max(row["loss"] for row in own)
        found.append({"domain": domain, "trials": len(own), **means, "largest_loss": largest})
    return found


def _bounds(prepared: Prepared, truth: int, sums: Sums) -> dict[str, Any]:
    model = prepared.models[truth]
    largest, discount = float(np.abs(model.reward).max()), float(model.discount)
    terms = (sums.comparator, sums.divergence, prepared.horizon, largest, discount)
    found = {
        f"bound_eta_{name}": losses.bound(*terms, eta) for name, eta in losses.etas(prepared.horizon).items()
    }
    return {
        "loss": sums.mixture,
        "comparator_loss": sums.comparator,
        "divergence": sums.divergence,
        **found,
        "bound_printed": losses.printed_bound(*terms),
    }
