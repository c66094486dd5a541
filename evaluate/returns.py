"""Gradients of the expected return in whatever an agent's policy depends on: its parameters, prior, models, vectors.

A trial earns G = sum_t r_t. Its actions come from pi_θ(a_t | h_t), where θ works through the whole path from the
history h_t to the action: prior, filter, posterior, tempering, softmax. What is drawn (actions, states,
observations) is no function of θ, so for a fixed history the derivative of log pi_θ(a_t | h_t) is that of a smooth
function, and the score function gives the gradient without bias:

    ∇ E[G] = E[ sum_t ∇log pi_θ(a_t | h_t) (G_t - c_t(a_t) - b_t) + sum_t sum_a ∇pi_θ(a | h_t) c_t(a) ]

    G_t  the return from step t on: what was earned before owes nothing to the action
    c_t  a critic's guess of G_t for each action, or 0; its part of the expectation is summed exactly over the
         actions, so that it may be as wrong as it likes
    b_t  the mean of G_t - c_t(a_t) over the other trials with the same true model, which are independent

Reparametrisation has no unbiased form here: the next state and observation are discrete in the action, and a
relaxed action has no step in the world. What can be summed instead of sampled is: over the actions of a step
(above, and `soft_losses`), and for short horizons over all histories (`exact_return`).

Shapes: A actions, X states, Z observations, K models, T steps, N trials.
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
from jatpo.evaluate import loops
from jatpo.evaluate.agent import Functions, Knowledge, Memory
from jatpo.evaluate.mixture import Mixture
from jatpo.evaluate.noise import Noise, make_noise
from jatpo.evaluate.soft import model_values
from jatpo.evaluate.task import Task
from jatpo.model import POMDP
from jatpo.solve.policy import NEVER
from jatpo.storage import DenseTransition, Transition

MOST_HISTORIES = 1 << 17

Critic = Callable[[Knowledge, Memory, Array], Array]
"""(knowledge, memory, truth [N]) -> a guess of the return from here on for each action [A, N]."""


class Steps(NamedTuple):
    """What happened in N trials of T steps."""

    rewards: Array  # [T, N]
    log_probability: Array  # [T, N] of the action taken, differentiable
    guess: Array  # [T, N], the critic's for the action taken
    expected_guess: Array  # [T, N], over all actions, differentiable through their probabilities


def draw_noise(key: Array, task: Task, horizon: int, trials: np.ndarray) -> Noise:
    """The random numbers of the trials with these numbers [N]: the same trials as in `rollout`."""
    return make_noise(key, trials, len(task.prior), horizon, np.dtype(task.prior.dtype))


def true_values(knowledge: Knowledge, memory: Mixture, truth: Array) -> Array:
    """A critic for agents that filter every model: the true model's best vector for each action [A, N].

    It may know the true model, since it trains the agent and is no part of it.
    """
    values = model_values(knowledge, memory)  # [K, A, N]
    own = jnp.take_along_axis(values, truth[None, None, :], axis=0)[0]
    return jnp.where(own > NEVER / 2, own, 0)


def play(
    functions: Functions,
    horizon: int,
    noise: Noise,
    task: Task,
    parameters: Any,
    critic: Critic | None = None,
    checkpoint: bool = False,
) -> tuple[Array, Steps]:
    """True models [N] and steps of the trials of `noise`, played to the end.

    With `checkpoint` the memory for a gradient in the library does not hold the beliefs of all steps at once;
    gradients in the agent's parameters alone hold none of them anyway.
    """
    player = loops.Player(functions, parameters, jnp.asarray(False))
    truth, prior, states = loops.draws(noise, task)
    knowledge = player.knowledge(task, truth, prior)

    def step(carry: loops.Carry, chance: tuple) -> tuple[loops.Carry, Steps]:
        after, happened = loops.advance(player, task, knowledge, truth, carry, chance)
        chances = happened.probabilities
        guesses = jnp.zeros_like(chances) if critic is None else critic(knowledge, carry.memory, truth)
        guesses = jax.lax.stop_gradient(guesses)
        log_probability = jnp.log(_taken(chances, happened.actions))
        expected = jnp.sum(chances * guesses, axis=0)
        return after, Steps(happened.rewards, log_probability, _taken(guesses, happened.actions), expected)

    memory = player.begin(noise.first_keys, knowledge, states)
    chances = jax.tree.map(lambda leaf: leaf[:horizon], (noise.world, noise.choice, noise.plan_keys))
    step = jax.checkpoint(step) if checkpoint else step
    _, steps = jax.lax.scan(step, loops.start(memory, states, task.world.reward.dtype), chances)
    return truth, steps


def _taken(table: Array, actions: Array) -> Array:
    """The entries of `table` [A, N] for actions [N]."""
    return jnp.take_along_axis(table, actions[None, :], axis=0)[0]


def surrogate(
    functions: Functions,
    horizon: int,
    noise: Noise,
    task: Task,
    parameters: Any,
    critic: Critic | None = None,
    checkpoint: bool = False,
) -> Array:
    """The mean return of the trials of `noise` []; its gradient is the estimate above. Pure: jit and grad it.

    Differentiable in `parameters`, and in `task` as far as the agent uses it (prior, library, solved). The
    worlds are given: their own numbers get no gradient.
    """
    truth, steps = play(functions, horizon, noise, task, parameters, critic, checkpoint)
    gains = jax.lax.stop_gradient(advantages(truth, steps))
    terms = jnp.sum(steps.log_probability * gains + steps.expected_guess, axis=0)  # [N]
    returns = jnp.sum(steps.rewards, axis=0)
    return jnp.mean(jax.lax.stop_gradient(returns - terms) + terms)


def advantages(truth: Array, steps: Steps) -> Array:
    """G_t - c_t - b_t [T, N]; b_t is 0 for a trial whose true model no other trial has."""
    togo = jnp.cumsum(steps.rewards[::-1], axis=0)[::-1] - steps.guess
    same = (truth[:, None] == truth[None, :]).astype(togo.dtype)
    others = same - jnp.eye(truth.shape[0], dtype=togo.dtype)
    count = jnp.sum(others, axis=1)[None, :]
    return togo - (togo @ others) / jnp.maximum(count, 1)


@partial(jax.jit, static_argnames=("functions", "horizon", "critic"))
def return_and_gradient(
    functions: Functions,
    horizon: int,
    noise: Noise,
    task: Task,
    parameters: Any,
    critic: Critic | None = None,
) -> tuple[Array, Any]:
    """The mean return of the trials of `noise` [] and the estimate of its gradient in `parameters`."""
    value = partial(surrogate, functions, horizon, noise, task, critic=critic)
    return jax.value_and_grad(value)(parameters)


def exact_return(functions: Functions, horizon: int, task: Task, parameters: Any) -> Array:
    """The expected return [], summed over every history; differentiable as `surrogate` is.

    For small models: there are (A Z)^(T-1) histories. The agent's keys are constant, so it must not draw numbers.
    """
    histories = (task.library.num_actions * task.library.num_observations) ** (horizon - 1)
    if histories > MOST_HISTORIES:
        raise JatpoError(
            f"{horizon} steps have {histories} histories, more than {MOST_HISTORIES}: "
            "shorten the horizon, or sample with returns.surrogate"
        )
    num_actions, num_observations = task.library.num_actions, task.library.num_observations
    pairs = np.stack(np.meshgrid(range(num_actions), range(num_observations), indexing="ij")).reshape(2, -1)
    player = loops.Player(functions, parameters, jnp.asarray(False))
    weight = task.weights[:, None, None] * task.world.initial[:, :, None]  # [K, X, N]
    reward = task.world.reward.reshape(weight.shape[1], weight.shape[0], num_actions)  # [X, K, A]
    memory, total = None, jnp.zeros((), weight.dtype)
    for step in range(horizon):
        keys = jnp.broadcast_to(jax.random.key(0), weight.shape[2:])
        knowledge = _knowledge(player, task, weight.shape[2])
        nowhere = jnp.zeros(weight.shape[2], jnp.int32)
        memory = player.begin(keys, knowledge, nowhere) if memory is None else memory
        chances = functions.policy(keys, knowledge, memory)  # [A, N]
        total = total + jnp.sum(chances * jnp.einsum("kxn,xka->an", weight, reward))
        if step + 1 < horizon:
            weight = _onward(task.world, weight, chances, pairs)
            each = (jnp.asarray(np.tile(part, keys.shape[0]), jnp.int32) for part in pairs)
            spread = jax.tree.map(lambda leaf: jnp.repeat(leaf, pairs.shape[1], axis=-1), memory)
            memory = functions.observe(_knowledge(player, task, weight.shape[2]), spread, *each)
    return total


def _knowledge(player: loops.Player, task: Task, count: int) -> Knowledge:
    """What the agent knows in each of `count` histories; it is never told the true model."""
    prior = jnp.broadcast_to(task.prior[:, None], (task.prior.shape[0], count))
    return player.knowledge(task, jnp.zeros(count, jnp.int32), prior)


def _onward(world: POMDP, weight: Array, chances: Array, pairs: np.ndarray) -> Array:
    """Weights [K, X, N] of histories, after each of the M pairs of action and observation: [K, X, N M]."""
    num_worlds, num_actions = weight.shape[0], chances.shape[0]

    def after(weight: Array, chance: Array, action: Array, seen: Array) -> Array:
        arrived = _arrived(world.transition, weight, action)
        return chance * arrived * world.observation.likelihood(action, seen)

    each_pair = jax.vmap(after, in_axes=(None, 0, 0, 0), out_axes=1)
    each_history = jax.vmap(each_pair, in_axes=(1, 1, None, None), out_axes=1)  # [X, N, M]
    each_world = jax.vmap(each_history, in_axes=(0, None, 0, None))
    first = num_actions * np.arange(num_worlds)[:, None]
    joined, seen = jnp.asarray(first + pairs[0], jnp.int32), jnp.asarray(pairs[1], jnp.int32)
    return each_world(weight, chances[pairs[0]], joined, seen).reshape(*weight.shape[:2], -1)


def _arrived(transition: Transition, weight: Array, action: Array) -> Array:
    """sum_x w(x) P(y | x, a) [X]; joined worlds keep no lists of predecessors."""
    if isinstance(transition, DenseTransition):
        return transition.push(weight, action)
    moved = weight[:, None] * transition.probability[action]
    return jnp.zeros_like(weight).at[transition.successor[action]].add(moved)
