"""A teammate's policy, learned from what the ad hoc agent did and saw, beside known joint dynamics:

    P(y | x, a) = sum_u π(u | x) P(y | x, a, u)                  u: the teammate's action

by="state"       logits for every state: any policy can be learned, given enough data
by="teammate"    or other variables of the state, comma-separated: states with equal values share their logits
by="features"    π ∝ π_start exp(sum_f w_f φ_f(x, u)): few weights, for little data

The fit starts from a known teammate, softened so that every action has positive probability. The divergence
sum KL(π_start || π), times `trust`, is what `fit` subtracts: the log prior of `trust` pseudo-visits to every
state with the start's behaviour. A state that was not visited keeps the start's policy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo import domains
from jatpo.domains.structure import World
from jatpo.errors import JatpoError, nearest
from jatpo.learn import support
from jatpo.learn.histories import Histories
from jatpo.learn.likelihood import log_likelihoods
from jatpo.library import Library
from jatpo.model import POMDP
from jatpo.pytree import pytree

STATE, FEATURES = "state", "features"
SOFTEN = 0.05  # the share of uniformly random actions that the start gets


@pytree
@dataclass(frozen=True, eq=False)
class Teammate:
    """One model with a free teammate. In `base` every reply of the teammate is possible."""

    base: POMDP
    moves: Array  # [A, X, S, U], P(successor | x, a, u)
    reward: Array  # [X, A, U]
    initial: Array  # [A or 1, G, U], the policy at the start, positive; A if it depends on the agent's action
    group: Array  # [X] int32, which row of the policy a state uses
    features: Array | None = None  # [G, U, F]

    @classmethod
    def of_domain(
        cls,
        name: str,
        model: int = 0,
        rules: str = "as_run",
        by: str = STATE,
        soften: float = SOFTEN,
        **overrides: Any,
    ) -> Teammate:
        """Beside the teammate of a domain's model."""
        world = domains.get(name).structure(model, rules, **overrides)
        if not isinstance(world, World):
            raise JatpoError(
                f"domain '{name}' has no separate teammate, because its builder does not return a World: only "
                "noise and prior can be learned"
            )
        return cls.of_world(world, by, soften)

    @classmethod
    def of_world(cls, world: World, by: str = STATE, soften: float = SOFTEN) -> Teammate:
        """Beside `world.teammate`."""
        mmdp = world.mmdp
        actions, replies, states, _ = mmdp.successors.shape
        uniform = np.full((states, replies), 1 / replies)
        sure = [np.broadcast_to(np.eye(replies)[u], (states, replies)) for u in range(replies)]
        kernels = [mmdp.pomdp(policy, world.sensor, world.observations).transition for policy in sure]
        moved = support.align_transitions(kernels, actions, states)
        base = domains.to_pomdp(mmdp.pomdp(uniform, world.sensor, world.observations), storage="blocked")
        real = base.dtype
        group = np.arange(states) if by in (STATE, FEATURES) else groups(mmdp.states, by)
        start = _start(np.asarray(world.teammate, np.float64), mmdp.terminal, group, soften)
        features = feature_table(world, start) if by == FEATURES else None
        return cls(
            base.replace(transition=moved.storage),
            jnp.asarray(np.moveaxis(moved.entries, 0, -1), real),
            jnp.asarray(np.array(mmdp.reward), real),
            jnp.asarray(start, real),
            jnp.asarray(group, jnp.int32),
            None if features is None else jnp.asarray(features, real),
        )

    def start(self) -> Array:
        """Logits [A or 1, G, U], or weights of features [F], all 0."""
        if self.features is None:
            return jnp.log(self.initial)
        return jnp.zeros(self.features.shape[-1], self.initial.dtype)

    def _logarithm(self, params: Array) -> Array:
        """log π of every row [A or 1, G, U]."""
        if self.features is not None:
            params = jnp.log(self.initial) + (self.features @ params)[None]
        return jax.nn.log_softmax(params)

    def weights(self, params: Array) -> Array:
        """The rows of the policy [A or 1, G, U]."""
        return jnp.exp(self._logarithm(params))

    def value(self, params: Array) -> Array:
        """π(u | x) [A or 1, X, U]."""
        return self.weights(params)[:, self.group]

    def model_of(self, weights: Array) -> POMDP:
        """The model beside a teammate with these rows, which need not be normalised."""
        policy = weights[:, self.group]
        wide = jnp.broadcast_to(policy, (self.moves.shape[0], *policy.shape[1:]))
        reward = jnp.einsum("axu,xau->xa", wide, self.reward)
        moves = jnp.einsum("axsu,axu->axs", self.moves, wide)
        return support.with_probabilities(self.base, moves).replace(reward=reward)

    def library(self, params: Array) -> Library:
        """A library of this one model."""
        models = jax.tree.map(lambda leaf: leaf[None], self.model_of(self.weights(params)))
        dtype = self.base.dtype
        return Library.from_arrays(models, jnp.ones((1, self.base.num_states), bool), jnp.ones(1, dtype))

    def models(self, params: Array) -> list[POMDP]:
        """The learned model, checked and named."""
        return [support.finished(_jit_model(self, params), self.base.names)]

    def prepare(self, histories: Histories) -> Histories:
        return jax.tree.map(jnp.asarray, histories)

    def log_likelihoods_of(self, weights: Array, data: Histories) -> Array:
        """[N], for rows of the policy."""
        return log_likelihoods(self.model_of(weights), data)

    def divergence(self, params: Array) -> Array:
        """sum KL(start || learned) over the rows; of features their mean, as often as there are features []."""
        by_row = jnp.sum(self.initial * (jnp.log(self.initial) - self._logarithm(params)), axis=-1)
        if self.features is None:
            return jnp.sum(by_row)
        return jnp.mean(by_row) * self.features.shape[-1]

    def maximise(self, counts: Array, trust: Array) -> Array:
        """Logits that fit expected numbers of actions [A or 1, G, U] best, with `trust` pseudo-counts per row."""
        if self.features is not None:
            raise JatpoError("weights of features have no closed form for EM: use fit, or another 'by'")
        return jnp.log(jnp.maximum(counts + trust * self.initial, jnp.finfo(counts.dtype).tiny))


_jit_model = jax.jit(lambda teammate, params: teammate.model_of(teammate.weights(params)))


def groups(states: Sequence[str], by: str) -> np.ndarray:
    """The group of every state [X]: states that agree in the variables `by` (with commas) share one.

    A variable is a word of the states' names, its value the word after it: "teammate 2,3". States that do not
    have it, such as the absorbing one, share a group.
    """
    words = {word for name in states for word in re.findall(r"(?:^|(?<= ))([^\W\d][\w-]*)(?= \S)", name)}
    chosen = [word.strip() for word in by.split(",")]
    for word in chosen:
        if word not in words:
            hint = nearest(word, words) or f"; choose from state, features, {', '.join(sorted(words))}"
            raise JatpoError(f"no variable of the states is called '{word}'{hint}")
    patterns = [re.compile(rf"(?:^| ){re.escape(word)} (\S+)") for word in chosen]
    keys = [tuple(match[1] if (match := p.search(name)) else "" for p in patterns) for name in states]
    order = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return np.array([order[key] for key in keys])


def _start(policy: np.ndarray, terminal: np.ndarray, group: np.ndarray, soften: float) -> np.ndarray:
    """The softened policy of every group [A or 1, G, U]: the mean over its non-terminal states."""
    if not 0 < soften <= 1:
        raise JatpoError(f"soften={soften} leaves actions impossible: give a number above 0 and up to 1")
    policy = policy[None] if policy.ndim == 2 else policy
    if (policy == policy[:1]).all():
        policy = policy[:1]
    acting = np.where(terminal[:, None], 0.0, policy)  # [A or 1, X, U]
    total = np.zeros((len(policy), group.max() + 1, policy.shape[2]))
    for rows, own in zip(total, acting, strict=True):
        np.add.at(rows, group, own)
    visits = total.sum(axis=2, keepdims=True)
    uniform = 1 / policy.shape[2]
    mean = np.where(visits > 0, total / np.where(visits > 0, visits, 1), uniform)
    return (1 - soften) * mean + soften * uniform


def feature_table(world: World, start: np.ndarray) -> np.ndarray:
    """φ(x, u) [X, U, F]: each action by itself, how sure the start is of it, and how good it is for the team.

    The last is the team's best value with that action, less its value, in parts of the largest difference.
    """
    solution = world.mmdp.value_iteration()
    replies = start.shape[-1]
    advantage = (solution.q.max(axis=0) - solution.values).T  # [X, U], at most 0
    advantage = advantage / max(np.abs(advantage).max(), 1e-12)
    sure = np.log(start.mean(axis=0))
    own = np.broadcast_to(np.eye(replies), (*advantage.shape, replies))
    return np.concatenate([own, sure[..., None], advantage[..., None]], axis=2)
