"""The Bayes-optimal ad hoc agent: ATPO's filter, and a policy of the joint problem.

A library is one POMDP whose hidden state is (model, state), see `Library.joint`. Its belief is p(k) b_k, which is
what ATPO's filter keeps, so only the choice of an action differs:

    a = action of argmax_v sum_k p(k) sum_x v(k, x) b_k(x)

The vectors v are those of the joint problem. They know what an observation will tell about the model, where ATPO
mixes policies that each believe to know it. A vector of a single model, with the worst case in all others, is one of
the joint problem too, and the best where that model is all but certain: those are asked as well. The upper bound of
the joint problem is a certificate: no agent that starts from this library and prior, and sees no more than
observations, has a higher discounted value.

Vectors solved for one prior serve any other: a trial whose library is a part of the whole has p(k) = 0 elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo.evaluate import mixture
from jatpo.evaluate.agent import Agent, Knowledge
from jatpo.evaluate.mixture import Mixture
from jatpo.library import Library
from jatpo.mdp import TIE
from jatpo.solve.policy import Policy, action_probabilities_columns

if TYPE_CHECKING:
    from jatpo.evaluate.solutions import Request
    from jatpo.solve import AnytimeSettings, Solution

ROUNDS = 12  # of the anytime solver: the result depends on the seed alone, not on the machine


def joint_beliefs(memory: Mixture) -> Array:
    """p(k) b_k, the belief of the joint problem [K, X, N]."""
    return jnp.exp(memory.log_posterior)[:, None, :] * memory.beliefs


def flat(policy: Policy, joint: Array) -> tuple[Policy, Array]:
    """Vectors [V, K, X] and joint beliefs [K, X, N] with one axis for (k, x)."""
    vectors = policy.vectors.reshape(policy.vectors.shape[0], -1)
    return Policy(vectors, policy.actions), joint.reshape(vectors.shape[1], -1)


def scores(policy: Policy, joint: Array) -> Array:
    """What each vector [V, K, X] promises at joint beliefs [K, X, N]: [V, N]."""
    whole, columns = flat(policy, joint)
    return whole.vectors @ columns


def policy(keys: Array, knowledge: Knowledge, memory: Mixture) -> Array:
    """Uniform over the actions of the vectors that are best at p(k) b_k [A, N], the single models' among them."""
    del keys
    joint, num_actions = joint_beliefs(memory), knowledge.actions.shape[0]
    whole, columns = flat(knowledge.solved["joint"], joint)
    together = action_probabilities_columns(whole, columns, num_actions)
    value = jnp.max(whole.vectors @ columns, axis=0)
    alone = alone_values(knowledge, memory)
    best = jnp.argmax(alone, axis=0)[None, None, :]
    own = jnp.take_along_axis(mixture.model_policies(knowledge, memory), best, axis=0)[0]
    return jnp.where(jnp.max(alone, axis=0) > value + TIE, own, together)


def alone_values(knowledge: Knowledge, memory: Mixture) -> Array:
    """p(k) v_k(b_k) and the worst case in all other models [K, N]: what following one model's policy earns at least."""
    library, posterior = knowledge.library, jnp.exp(memory.log_posterior)
    lowest = jnp.min(library.models.reward, axis=2, where=library.state_mask[:, :, None], initial=jnp.inf)
    floors = jnp.min(lowest, axis=1) / (1 - library.models.discount)  # [K]
    values = jax.vmap(lambda own, beliefs: jnp.max(own.vectors @ beliefs, axis=0))(
        knowledge.solved["policies"], memory.beliefs
    )
    return posterior * (values - floors[:, None]) + (floors @ posterior)[None, :]


def spread(policy: Policy, library: Library) -> Policy:
    """A policy of `library.joint()` with vectors [V, sum of all states], as [V, K, X] with 0 for padding."""
    mask = np.asarray(library.state_mask)
    vectors = np.zeros((policy.vectors.shape[0], *mask.shape), policy.vectors.dtype)
    vectors[:, mask] = policy.vectors
    return Policy(jnp.asarray(vectors), policy.actions)


def settings_for(request: Request) -> AnytimeSettings:
    """How the joint problem is solved unless the options say otherwise.

    Half of the walkers act at random. With fewer of them the bound at the start is a little better, and more trials get
    stuck at a belief for which no good vector was kept: 3.4 instead of 2.4 % in mit by the rules as written.
    """
    from jatpo.solve import AnytimeSettings
    from jatpo.solve.anytime import FOR_AGENTS

    chosen = request.options.settings
    if isinstance(chosen, AnytimeSettings):
        return chosen
    return AnytimeSettings(seconds=0, stages=ROUNDS, off_policy=FOR_AGENTS)


def joint_solution(request: Request) -> Solution:
    """The solution of the joint problem; its `upper` is what no agent with this library can pass."""
    from jatpo.solve import default_directory, solve_library

    options = request.options
    return solve_library(
        [request.library.joint()],
        settings_for(request),
        seed=options.seed,
        directory=options.directory or default_directory(),
        progress=options.progress,
        labels=[f"{request.target.name} joint"],
        note=options.note,
    )[0]


def solve_joint(request: Request) -> Policy:
    """The alpha vectors of the joint problem [V, K, X], for the library that the request has stacked."""
    return spread(joint_solution(request).policy, request.library)


BAYES = Agent(
    "bayes",
    "observation",
    "library",
    mixture.init,
    policy,
    mixture.observe,
    mixture.report,
    ("joint", "policies"),
    mixture.Settings(),
)
