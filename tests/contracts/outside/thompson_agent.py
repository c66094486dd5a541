"""An agent from outside the package: it follows a model drawn from the posterior, and at times draws again."""

import jax
import jax.numpy as jnp

from jatpo.evaluate.agents import register
from jatpo.filter import update_models
from jatpo.solve.policy import Policy, action_probabilities


@register
class Thompson:
    name, sees, knows, needs = "thompson", "observation", "library", ("policies",)
    restart: float = 0.1  # probability of drawing anew after a step

    def init(self, key, context, seen):
        log_p = jnp.log(context.prior)
        return {"b": context.library.models.initial, "log_p": log_p, "k": jax.random.categorical(key, log_p)}

    def act(self, key, context, memory):
        policies = context.solved["policies"]
        own = Policy(policies.vectors[memory["k"]], policies.actions[memory["k"]])
        return action_probabilities(own, memory["b"][memory["k"]], context.actions.shape[0])

    def update(self, key, context, memory, action, seen):
        beliefs, log_evidence = update_models(context.library.models, memory["b"], action, seen)
        log_p = jax.nn.log_softmax(memory["log_p"] + jnp.maximum(log_evidence, -60))
        again, which = jax.random.split(key)
        drawn = jax.random.categorical(which, log_p)
        stays = jax.random.uniform(again) >= self.restart
        return {"b": beliefs, "log_p": log_p, "k": jnp.where(stays, memory["k"], drawn)}

    def report(self, context, memory):
        posterior = jnp.exp(memory["log_p"])
        entropy = -jnp.sum(posterior * memory["log_p"]) / jnp.log(posterior.shape[0])
        return {"posterior": posterior, "entropy": entropy, "beliefs": memory["b"]}
