"""The loops over steps, for N trials setup by setup.

`record` runs every trial to its last step and keeps what was asked for. `play` wants returns only: a trial is
over when it is in a state that nothing leaves and that earns nothing, and its place is then taken by the next
of M trials. Most trials reach their goal early, so that saves most of the work.

A trial's numbers do not depend on its place nor on its neighbours: all arrays have the same shape whatever
is asked for, and what happens in one column of them is the same in every column.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.evaluate import world
from jatpo.evaluate.agents.protocol import Agent, Context, Memory, Parts, choose, permit, sight
from jatpo.evaluate.noise import Noise
from jatpo.evaluate.scenario import Draw, Scenario, context_of, draw
from jatpo.evaluate.turn import turn

OF_STEP = ("rewards", "actions", "observations", "probabilities")
OF_TRIAL = ("steps", "steps_sure")
SURE = 0.9
FAULT_CODES = 4  # more than there are faults
NO_FAULT = 2**31 - 1


class Setup(NamedTuple):
    """An agent, whether it knows the true model, the scenario, and what was solved for the agent."""

    agent: Agent
    informed: Array  # [] bool
    scenario: Scenario
    solved: Parts

    def context(self, truth: Array, prior: Array) -> Context:
        """What the agent may know of trials with true models [N] and priors [K, N]."""
        return permit(self.agent, context_of(self.scenario, self.solved, prior), self.informed, truth)

    def begin(self, keys: Array, context: Context, states: Array) -> Memory:
        """The agent's memory before the first action, in start states [N]."""
        return self.agent.init(keys, context, sight(self.agent, states, None))


class Step(NamedTuple):
    """What happened in one step of N trials."""

    rewards: Array  # [N]
    actions: Array  # [N]
    observations: Array  # [N]
    probabilities: Array  # [A, N]
    fault: Array  # [N], see `turn.fault`


class Carry(NamedTuple):
    """Between two steps: the worlds' states, the agent's memory, what was earned."""

    states: Array  # [N]
    memory: Memory
    returns: Array  # [N]
    discounted: Array  # [N]
    weight: Array  # [N], discount to the power t


def start(memory: Memory, states: Array, dtype: Any) -> Carry:
    """Before the first step."""
    nothing = jnp.zeros(states.shape, dtype)
    return Carry(states, memory, nothing, nothing, jnp.ones_like(nothing))


def advance(
    setup: Setup, context: Context, truth: Array, carry: Carry, noise: tuple[Array, Array, Array]
) -> tuple[Carry, Step]:
    """One step of N trials: act, let the world answer, update. `noise` is for the world, the choice, the agent."""
    of_world, choice, keys = noise
    agent, scenario = setup.agent, setup.scenario

    def answer(probabilities: Array) -> tuple[Array, Array | None, tuple]:
        actions = choose(choice, probabilities)
        joined = truth * scenario.library.num_actions + actions
        arrived, observations, rewards = world.step_apart(scenario.world, of_world, carry.states, joined)
        return actions, sight(agent, arrived, observations), (actions, arrived, observations, rewards)

    memory, done = turn(agent, context, carry.memory, keys, answer)
    actions, arrived, observations, rewards = done.outcome
    discounted = carry.discounted + carry.weight * rewards
    weight = carry.weight * scenario.world.discount[truth]
    after = Carry(arrived, memory, carry.returns + rewards, discounted, weight)
    return after, Step(rewards, actions, observations, done.probabilities, done.fault)


def draws(noise: Noise, scenario: Scenario) -> tuple[Array, Array, Array]:
    """True models [M], priors [K, M] and start states [M] of the trials that `noise` belongs to."""
    axes: Any = Draw._make((0, 1))
    truth, prior = jax.vmap(draw, in_axes=(0, None), out_axes=axes)(noise.draw, scenario)
    return truth, prior, world.start(scenario.world, noise.start, truth)


def record(setup: Setup, horizon: int, names: tuple[str, ...], noise: Noise) -> tuple:
    """Truth, return, discounted return [N], records [T or T+1, ..., N] and the first fault of trials run to the end."""
    truth, prior, states = draws(noise, setup.scenario)
    context = setup.context(truth, prior)

    def reported(carry: Carry) -> dict[str, Array]:
        found = {"states": carry.states, **setup.agent.report(context, carry.memory)}
        return {name: found[name] for name in names if name in found}

    def step(carry: Carry, noise: tuple) -> tuple[Carry, tuple[dict, dict, Array]]:
        before = reported(carry)
        carry, happened = advance(setup, context, truth, carry, noise)
        done = happened._asdict()
        return carry, (before, {name: done[name] for name in names if name in done}, happened.fault)

    memory = setup.begin(noise.first_keys, context, states)
    steps = jax.tree.map(lambda leaf: leaf[:horizon], (noise.world, noise.choice, noise.step_keys))
    carry = start(memory, states, setup.scenario.world.reward.dtype)
    end, (before, done, faults) = jax.lax.scan(step, carry, steps)
    before = jax.tree.map(lambda steps, last: jnp.concatenate([steps, last[None]]), before, reported(end))
    numbers, times = (jnp.arange(size, dtype=jnp.int32) for size in (truth.shape[0], horizon))
    fault = jnp.min(coded(faults, numbers[None, :], times[:, None], horizon))
    return truth, end.returns, end.discounted, {**before, **done}, fault


def coded(fault: Array, trial: Array, step: Array, horizon: int) -> Array:
    """Faults with trial and step in one number, of which the least is the first; `NO_FAULT` where there is none."""
    found = (trial * horizon + step) * FAULT_CODES + fault
    return jnp.where(fault > 0, found, NO_FAULT)


def decoded(code: int, horizon: int) -> tuple[int, int, int]:
    """The fault, trial and step of a number that `coded` made."""
    place, fault = divmod(code, FAULT_CODES)
    return (fault, *divmod(place, horizon))


class Places(NamedTuple):
    """N places at play: which trial each holds (M: none), its step, its truth and prior, and the trial itself."""

    trial: Array  # [N]
    step: Array  # [N]
    truth: Array  # [N]
    prior: Array  # [K, N]
    sure: Array  # [N], the first step at which the true model had `SURE`; -1: none so far
    carry: Carry
    waiting: Array  # [], the next trial to begin
    returns: Array  # [M + 1]
    discounted: Array  # [M + 1]
    steps: Array  # [M + 1]
    steps_sure: Array  # [M + 1]
    fault: Array  # [], the first one, see `coded`


def play(
    setup: Setup, horizon: int, num_places: int, noise: Noise, count: Array, names: tuple[str, ...] = ()
) -> tuple:
    """Truth, return and discounted return [M] of the first `count` of M trials, played in N places.

    After them a dictionary of what `names` asks for, of `OF_TRIAL` [M], and the first fault of the agent (`coded`):
    "steps" until the trial was over, and
    "steps_sure" until the agent gave the true model a probability of `SURE`, -1 if the trial was over before.
    """
    truths, priors, starts = draws(noise, setup.scenario)
    capacity = truths.shape[0]
    dtype = setup.scenario.world.reward.dtype

    def enter(trial: Array) -> Places:
        """All places, each at the beginning of its trial [N]."""
        known = jnp.minimum(trial, capacity - 1)
        truth, prior, states = truths[known], priors[:, known], starts[known]
        memory = setup.begin(noise.first_keys[known], setup.context(truth, prior), states)
        nothing = jnp.zeros(capacity + 1, dtype)
        began = start(memory, states, dtype)
        never = jnp.full(capacity + 1, -1, jnp.int32)
        at_once = sure(setup.context(truth, prior), memory, truth, jnp.full_like(trial, -1), 0)
        at = jnp.zeros_like(trial)
        results = (nothing, nothing, never, never, jnp.int32(NO_FAULT))
        return Places(trial, at, truth, prior, at_once, began, jnp.int32(0), *results)

    def sure(context: Context, memory: Memory, truth: Array, before: Array, step: Array | int) -> Array:
        """The step at which the agent was sure first, given that `before`; -1 where it still is not."""
        if "steps_sure" not in names:
            return before
        posterior = setup.agent.report(context, memory)["posterior"]
        true = jnp.arange(posterior.shape[0], dtype=jnp.int32)[:, None] == truth[None, :]
        certain = jnp.sum(jnp.where(true, posterior, 0), axis=0) >= SURE
        return jnp.where((before < 0) & certain, step, before)

    def unfinished(places: Places) -> Array:
        return jnp.any(places.trial < capacity)

    def step(places: Places) -> Places:
        known, t = jnp.minimum(places.trial, capacity - 1), jnp.minimum(places.step, horizon - 1)
        chance = (noise.world[t, known], noise.choice[t, known], noise.step_keys[t, known])
        context = setup.context(places.truth, places.prior)
        carry, happened = advance(setup, context, places.truth, places.carry, chance)
        over = (places.step + 1 >= horizon) | setup.scenario.final[places.truth, carry.states]
        done = sure(context, carry.memory, places.truth, places.sure, places.step + 1)
        faults = coded(happened.fault, known, t, horizon)
        fault = jnp.minimum(places.fault, jnp.min(jnp.where(places.trial < capacity, faults, NO_FAULT)))
        return refill(places._replace(carry=carry, step=places.step + 1, sure=done, fault=fault), over)

    def refill(places: Places, over: Array) -> Places:
        """Keep the results of trials that have ended and let others take their places."""
        slot = jnp.where(over, places.trial, capacity)
        returns = places.returns.at[slot].set(places.carry.returns)
        discounted = places.discounted.at[slot].set(places.carry.discounted)
        steps = places.steps.at[slot].set(places.step)
        steps_sure = places.steps_sure.at[slot].set(places.sure)
        follows = places.waiting + jnp.cumsum(over, dtype=jnp.int32) - 1
        follows = jnp.where(follows < count, follows, capacity)
        entered = enter(jnp.where(over, follows, places.trial))
        mixed = jax.tree.map(lambda new, old: jnp.where(over, new, old), entered[:3], places[:3])
        prior = jnp.where(over[None, :], entered.prior, places.prior)
        certain = jnp.where(over, entered.sure, places.sure)
        carry = jax.tree.map(lambda new, old: _choose(over, new, old), entered.carry, places.carry)
        waiting = jnp.minimum(places.waiting + jnp.sum(over, dtype=jnp.int32), count)
        results = (returns, discounted, steps, steps_sure, places.fault)
        return Places._make((*mixed, prior, certain, carry, waiting, *results))

    first = jnp.arange(num_places, dtype=jnp.int32)
    begun = enter(jnp.where(first < count, first, capacity))
    end = jax.lax.while_loop(unfinished, step, begun._replace(waiting=jnp.minimum(num_places, count)))
    outcomes = {name: getattr(end, name)[:capacity] for name in names}
    return truths, end.returns[:capacity], end.discounted[:capacity], outcomes, end.fault


def _choose(over: Array, new: Array, old: Array) -> Array:
    """`new` where a trial is over, `old` elsewhere; the trial is the last axis."""
    return jnp.where(over.reshape((1,) * (old.ndim - 1) + over.shape), new, old)
