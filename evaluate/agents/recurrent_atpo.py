"""ATPO whose posterior comes from a trained recurrent network instead of Bayes' rule: the learned baseline.

    p(k | history) = softmax_k(scores of the network + log prior)             pi(a) = sum_k p(k) pi_k(a | b_k)

after RecBayes (arXiv 2506.15756). The beliefs of each model's own policy are those of the filter, so that agents
differ from `particle_atpo` by their posterior only. `jatpo.evaluate.classifier` trains the network.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
from jax import Array

from jatpo.evaluate import recurrent_network
from jatpo.evaluate.agents.protocol import Context, agent_class
from jatpo.evaluate.agents.simulator_atpo import Inferred, SimulatorATPO
from jatpo.evaluate.recurrent_network import features_of
from jatpo.filter import safe_log
from jatpo.simulators import simulators_of


class Recalled(NamedTuple):
    """What ATPO keeps, and the state of the network."""

    inferred: Inferred
    hidden: Array  # [H]


@agent_class
class RecurrentATPO(SimulatorATPO):
    """The mixture of all models' policies, weighted by a trained classifier of histories."""

    name: str = "recurrent_atpo"

    @property
    def needs(self) -> tuple[str, ...]:
        return (*self.policy.needs, "classifier")

    def inferred(self, memory: Recalled) -> Inferred:
        return memory.inferred

    def begin(self, key: Array, context: Context, prior: Array) -> Recalled:
        first = super().begin(key, context, prior)
        return Recalled(first, recurrent_network.first_state(context.solved["classifier"]))

    def decide(self, key: Array, context: Context, memory: Recalled) -> Array:
        return super().decide(key, context, memory.inferred)

    def infer(
        self, key: Array, context: Context, memory: Recalled, prior: Array, action: Array, observation: Any
    ) -> Recalled:
        network = context.solved["classifier"]
        after = super().infer(key, context, memory.inferred, prior, action, observation)
        features = features_of(simulators_of(context.library), observation)
        hidden = recurrent_network.advance(network, memory.hidden, action, features)
        weighed = recurrent_network.scores(network, hidden).astype(prior.dtype) + safe_log(prior)
        return Recalled(after._replace(log_posterior=jax.nn.log_softmax(weighed)), hidden)
