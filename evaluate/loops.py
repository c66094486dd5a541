"""The loops over steps, for N trials side by side.

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
from jatpo.evaluate.agent import Functions, Knowledge, Memory, choose, permit, sight
from jatpo.evaluate.noise import Noise
from jatpo.evaluate.task import Draw, Task, draw, knowledge_of

OF_STEP = ("rewards", "actions", "observations", "probabilities")
OF_TRIAL = ("steps", "steps_sure")
SURE = 0.9


class Player(NamedTuple):
    """Who plays: functions, parameters, and whether it is told the true model."""

    agent: Functions
    parameters: Any
    informed: Array

    def knowledge(self, task: Task, truth: Array, prior: Array) -> Knowledge:
        """What it may know of trials with true models [N] and priors [K, N]."""
        return permit(self.agent, knowledge_of(task, self.parameters, prior), self.informed, truth)

    def begin(self, keys: Array, knowledge: Knowledge, states: Array) -> Memory:
        return self.agent.init(keys, knowledge, sight(self.agent, states, None))


class Step(NamedTuple):
    """What happened in one step of N trials."""

    rewards: Array  # [N]
    actions: Array  # [N]
    observations: Array  # [N]
    probabilities: Array  # [A, N]


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
    player: Player,
    task: Task,
    knowledge: Knowledge,
    truth: Array,
    carry: Carry,
    noise: tuple[Array, Array, Array],
) -> tuple[Carry, Step]:
    """One step of N trials: act, let the world answer, observe. `noise` is for the world, the choice, plans."""
    of_world, choice, keys = noise
    agent = player.agent
    probabilities = agent.policy(keys, knowledge, carry.memory)
    actions = choose(choice, probabilities)
    joined = truth * task.library.num_actions + actions
    arrived, observations, rewards = world.step_apart(task.world, of_world, carry.states, joined)
    memory = agent.observe(knowledge, carry.memory, actions, sight(agent, arrived, observations))
    discounted = carry.discounted + carry.weight * rewards
    weight = carry.weight * task.world.discount[truth]
    after = Carry(arrived, memory, carry.returns + rewards, discounted, weight)
    return after, Step(rewards, actions, observations, probabilities)


def draws(noise: Noise, task: Task) -> tuple[Array, Array, Array]:
    """True models [M], priors [K, M] and start states [M] of the trials that `noise` belongs to."""
    axes: Any = Draw._make((0, 1))
    truth, prior = jax.vmap(draw, in_axes=(0, None), out_axes=axes)(noise.draw, task)
    return truth, prior, world.start(task.world, noise.start, truth)


def record(player: Player, horizon: int, names: tuple[str, ...], noise: Noise, task: Task) -> tuple:
    """Truth, return, discounted return [N] and records [T or T+1, ..., N] of trials that run to the end."""
    truth, prior, states = draws(noise, task)
    knowledge = player.knowledge(task, truth, prior)

    def told(carry: Carry) -> dict[str, Array]:
        found = {"states": carry.states, **player.agent.report(knowledge, carry.memory)}
        return {name: found[name] for name in names if name in found}

    def step(carry: Carry, noise: tuple) -> tuple[Carry, tuple[dict, dict]]:
        before = told(carry)
        carry, happened = advance(player, task, knowledge, truth, carry, noise)
        done = dict(zip(OF_STEP, happened, strict=True))
        return carry, (before, {name: done[name] for name in names if name in done})

    memory = player.begin(noise.first_keys, knowledge, states)
    steps = jax.tree.map(lambda leaf: leaf[:horizon], (noise.world, noise.choice, noise.plan_keys))
    end, (before, done) = jax.lax.scan(step, start(memory, states, task.world.reward.dtype), steps)
    before = jax.tree.map(lambda steps, last: jnp.concatenate([steps, last[None]]), before, told(end))
    return truth, end.returns, end.discounted, {**before, **done}


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


def play(
    player: Player,
    horizon: int,
    num_places: int,
    noise: Noise,
    count: Array,
    task: Task,
    names: tuple[str, ...] = (),
) -> tuple:
    """Truth, return and discounted return [M] of the first `count` of M trials, played in N places.

    After them a dictionary of what `names` asks for, of `OF_TRIAL` [M]: "steps" until the trial was over, and
    "steps_sure" until the agent gave the true model a probability of `SURE`, -1 if the trial was over before.
    """
    truths, priors, starts = draws(noise, task)
    capacity = truths.shape[0]
    dtype = task.world.reward.dtype

    def enter(trial: Array) -> Places:
        """All places, each at the beginning of its trial [N]."""
        known = jnp.minimum(trial, capacity - 1)
        truth, prior, states = truths[known], priors[:, known], starts[known]
        memory = player.begin(noise.first_keys[known], player.knowledge(task, truth, prior), states)
        nothing = jnp.zeros(capacity + 1, dtype)
        began = start(memory, states, dtype)
        never = jnp.full(capacity + 1, -1, jnp.int32)
        at_once = sure(player.knowledge(task, truth, prior), memory, truth, jnp.full_like(trial, -1), 0)
        at = jnp.zeros_like(trial)
        return Places(trial, at, truth, prior, at_once, began, jnp.int32(0), nothing, nothing, never, never)

    def sure(knowledge: Knowledge, memory: Memory, truth: Array, before: Array, step: Array | int) -> Array:
        """The step at which the agent was sure first, given that `before`; -1 where it still is not."""
        if "steps_sure" not in names:
            return before
        posterior = player.agent.report(knowledge, memory)["posterior"]
        true = jnp.arange(posterior.shape[0], dtype=jnp.int32)[:, None] == truth[None, :]
        certain = jnp.sum(jnp.where(true, posterior, 0), axis=0) >= SURE
        return jnp.where((before < 0) & certain, step, before)

    def unfinished(places: Places) -> Array:
        return jnp.any(places.trial < capacity)

    def step(places: Places) -> Places:
        known, t = jnp.minimum(places.trial, capacity - 1), jnp.minimum(places.step, horizon - 1)
        chance = (noise.world[t, known], noise.choice[t, known], noise.plan_keys[t, known])
        knowledge = player.knowledge(task, places.truth, places.prior)
        carry, _ = advance(player, task, knowledge, places.truth, places.carry, chance)
        over = (places.step + 1 >= horizon) | task.over[places.truth, carry.states]
        done = sure(knowledge, carry.memory, places.truth, places.sure, places.step + 1)
        return refill(places._replace(carry=carry, step=places.step + 1, sure=done), over)

    def refill(places: Places, over: Array) -> Places:
        """Keep the results of trials that are over and let others take their places."""
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
        results = (returns, discounted, steps, steps_sure)
        return Places._make((*mixed, prior, certain, carry, waiting, *results))

    first = jnp.arange(num_places, dtype=jnp.int32)
    begun = enter(jnp.where(first < count, first, capacity))
    end = jax.lax.while_loop(unfinished, step, begun._replace(waiting=jnp.minimum(num_places, count)))
    outcomes = {name: getattr(end, name)[:capacity] for name in names}
    return truths, end.returns[:capacity], end.discounted[:capacity], outcomes


def _choose(over: Array, new: Array, old: Array) -> Array:
    """`new` where a trial is over, `old` elsewhere; the trial is the last axis."""
    return jnp.where(over.reshape((1,) * (old.ndim - 1) + over.shape), new, old)
