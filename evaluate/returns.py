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
(above, and `losses.history_losses`), and for short horizons over all histories (`exact_return`).

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
from jatpo.evaluate.agents.atpo import Mixture
from jatpo.evaluate.agents.protocol import Agent, Context, Memory, Parts
from jatpo.evaluate.agents.soft_atpo import model_values
from jatpo.evaluate.noise import Noise, make_noise
from jatpo.evaluate.scenario import Scenario
from jatpo.evaluate.turn import decide
from jatpo.model import POMDP
from jatpo.solve.policy import NEVER

MOST_HISTORIES = 1 << 17

Critic = Callable[[Context, Memory, Array], Array]
"""(context, memory, truth [N]) -> a guess of the return from here on for each action [A, N]."""


class Steps(NamedTuple):
    """What happened in N trials of T steps."""

    rewards: Array  # [T, N]
    log_probability: Array  # [T, N] of the action taken, differentiable
    guess: Array  # [T, N], the critic's for the action taken
    expected_guess: Array  # [T, N], over all actions, differentiable through their probabilities


def draw_noise(key: Array, scenario: Scenario, horizon: int, trials: np.ndarray) -> Noise:
    """The random numbers of the trials with these numbers [N]: the same trials as in `rollout`."""
    return make_noise(key, trials, len(scenario.prior), horizon, np.dtype(scenario.prior.dtype))


def true_values(context: Context, memory: Mixture, truth: Array) -> Array:
    """A critic for agents that filter every model: the true model's best vector for each action [A, N].

    It may know the true model, since it trains the agent and does not belong to it.
    """
    values = model_values(context, memory)  # [K, A, N]
    own = jnp.take_along_axis(values, truth[None, None, :], axis=0)[0]
    return jnp.where(own > NEVER / 2, own, 0)


def play(
    agent: Agent,
    horizon: int,
    noise: Noise,
    scenario: Scenario,
    solved: Parts,
    critic: Critic | None = None,
    checkpoint: bool = False,
) -> tuple[Array, Steps]:
    """True models [N] and steps of the trials of `noise`, played to the end.

    With `checkpoint` the memory for a gradient in the library does not hold the beliefs of all steps at once;
    gradients in the agent's parameters alone hold none of them anyway.
    """
    setup = loops.Setup(agent, jnp.asarray(False), scenario, solved)
    truth, prior, states = loops.draws(noise, scenario)
    context = setup.context(truth, prior)

    def step(carry: loops.Carry, chance: tuple) -> tuple[loops.Carry, Steps]:
        after, happened = loops.advance(setup, context, truth, carry, chance)
        chances = happened.probabilities
        guesses = jnp.zeros_like(chances) if critic is None else critic(context, carry.memory, truth)
        guesses = jax.lax.stop_gradient(guesses)
        log_probability = jnp.log(_taken(chances, happened.actions))
        expected = jnp.sum(chances * guesses, axis=0)
        return after, Steps(happened.rewards, log_probability, _taken(guesses, happened.actions), expected)

    memory = setup.begin(noise.first_keys, context, states)
    chances = jax.tree.map(lambda leaf: leaf[:horizon], (noise.world, noise.choice, noise.step_keys))
    step = jax.checkpoint(step) if checkpoint else step
    _, steps = jax.lax.scan(step, loops.start(memory, states, scenario.world.reward.dtype), chances)
    return truth, steps


def _taken(table: Array, actions: Array) -> Array:
    """The entries of `table` [A, N] for actions [N]."""
    return jnp.take_along_axis(table, actions[None, :], axis=0)[0]


def surrogate(
    agent: Agent,
    horizon: int,
    noise: Noise,
    scenario: Scenario,
    solved: Parts,
    critic: Critic | None = None,
    checkpoint: bool = False,
) -> Array:
    """The mean return of the trials of `noise` []; its gradient is the estimate above. Pure: jit and grad it.

    Differentiable in the parameters of `agent`, and in `scenario` and `solved` as far as the agent uses them (prior,
    library). The true models are given: their own numbers get no gradient.
    """
    truth, steps = play(agent, horizon, noise, scenario, solved, critic, checkpoint)
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


@partial(jax.jit, static_argnames=("horizon", "critic"))
def return_and_gradient(
    agent: Agent,
    horizon: int,
    noise: Noise,
    scenario: Scenario,
    solved: Parts,
    critic: Critic | None = None,
) -> tuple[Array, Any]:
    """The mean return of the trials of `noise` [] and the estimate of its gradient in the agent's parameters."""
    return jax.value_and_grad(surrogate)(agent, horizon, noise, scenario, solved, critic)


def exact_return(agent: Agent, horizon: int, scenario: Scenario, solved: Parts) -> Array:
    """The expected return [], summed over every history; differentiable as `surrogate` is.

    For small models: there are (A Z)^(T-1) histories. The agent's keys are constant, so it must not draw numbers.
    """
    histories = (scenario.library.num_actions * scenario.library.num_observations) ** (horizon - 1)
    if histories > MOST_HISTORIES:
        raise JatpoError(
            f"{horizon} steps have {histories} histories, more than {MOST_HISTORIES}: "
            "shorten the horizon, or sample with returns.surrogate"
        )
    num_actions, num_observations = scenario.library.num_actions, scenario.library.num_observations
    pairs = np.stack(np.meshgrid(range(num_actions), range(num_observations), indexing="ij")).reshape(2, -1)
    setup = loops.Setup(agent, jnp.asarray(False), scenario, solved)
    weight = scenario.weights[:, None, None] * scenario.world.initial[:, :, None]  # [K, X, N]
    reward = scenario.world.reward.reshape(weight.shape[1], weight.shape[0], num_actions)  # [X, K, A]
    memory, total = None, jnp.zeros((), weight.dtype)
    for step in range(horizon):
        keys = jnp.broadcast_to(jax.random.key(0), weight.shape[2:])
        context = _context(setup, weight.shape[2])
        nowhere = jnp.zeros(weight.shape[2], jnp.int32)
        memory = setup.begin(keys, context, nowhere) if memory is None else memory
        chances, _ = decide(agent, context, memory, keys)  # [A, N]
        total = total + jnp.sum(chances * jnp.einsum("kxn,xka->an", weight, reward))
        if step + 1 < horizon:
            weight = _onward(scenario.world, weight, chances, pairs)
            each = (jnp.asarray(np.tile(part, keys.shape[0]), jnp.int32) for part in pairs)
            spread = jax.tree.map(lambda leaf: jnp.repeat(leaf, pairs.shape[1], axis=-1), memory)
            again = jnp.broadcast_to(jax.random.key(0), weight.shape[2:])
            memory = agent.update(again, _context(setup, weight.shape[2]), spread, *each)
    return total


def _context(setup: loops.Setup, count: int) -> Context:
    """What the agent knows in each of `count` histories; it never knows the true model."""
    prior = setup.scenario.prior
    return setup.context(jnp.zeros(count, jnp.int32), jnp.broadcast_to(prior[:, None], (*prior.shape, count)))


def _onward(world: POMDP, weight: Array, chances: Array, pairs: np.ndarray) -> Array:
    """Weights [K, X, N] of histories, after each of the M pairs of action and observation: [K, X, N M]."""
    num_worlds, num_actions = weight.shape[0], chances.shape[0]

    def after(weight: Array, chance: Array, action: Array, seen: Array) -> Array:
        arrived = world.transition.predict(weight, action)
        return chance * arrived * world.observation.likelihood(action, seen)

    each_pair = jax.vmap(after, in_axes=(None, 0, 0, 0), out_axes=1)
    each_history = jax.vmap(each_pair, in_axes=(1, 1, None, None), out_axes=1)  # [X, N, M]
    each_world = jax.vmap(each_history, in_axes=(0, None, 0, None))
    first = num_actions * np.arange(num_worlds)[:, None]
    joined, seen = jnp.asarray(first + pairs[0], jnp.int32), jnp.asarray(pairs[1], jnp.int32)
    return each_world(weight, chances[pairs[0]], joined, seen).reshape(*weight.shape[:2], -1)
