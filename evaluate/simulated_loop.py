"""The loop over steps of N trials in simulators: turns as with tables, in a world of `SimulatorLibrary.advance`.

A trial that is done keeps its state and earns nothing more. Its agent's memory stays as it was before the last action:
filters rule out final states, since the agent still acts, so they do not update on what is seen there. The world's
random keys are made of those of the trial and the step, so that all agents meet the same noise: `fold_in(., WORLD)` of
the agent's key, which no agent is given (`noise.agent_keys`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.evaluate.agents.protocol import Context, Memory, choose
from jatpo.evaluate.loops import NO_FAULT, SURE, Setup, coded
from jatpo.evaluate.noise import Noise
from jatpo.evaluate.scenario import Draw, draw
from jatpo.evaluate.turn import turn

WORLD = 3  # agent_keys uses 0 to 2
fold_all = jax.vmap(jax.random.fold_in, in_axes=(0, None))


class Moving(NamedTuple):
    """Between two steps."""

    states: Any  # a tuple of groups, [N, ...]
    memory: Memory
    returns: Array  # [N]
    discounted: Array  # [N]
    weight: Array  # [N], discount to the power t
    done: Array  # [N] bool
    steps: Array  # [N] int32
    steps_sure: Array  # [N] int32, -1: not yet


def play_simulators(setup: Setup, horizon: int, names: tuple[str, ...], noise: Noise) -> tuple:
    """Truth, return, discounted return [N], records and the first fault, as `loops.record` and `loops.play` give."""
    scenario: Any = setup.scenario  # a SimulatorScenario
    draw_axes: Any = Draw._make((0, 1))
    truth, prior = jax.vmap(draw, in_axes=(0, None), out_axes=draw_axes)(noise.draw, scenario)
    context = setup.context(truth, prior)
    states = jax.vmap(scenario.world.start)(fold_all(noise.first_keys, WORLD), truth)
    memory = setup.agent.init(noise.first_keys, context, None)
    nothing = jnp.zeros(truth.shape, scenario.prior.dtype)
    never = jnp.full(truth.shape, -1, jnp.int32)
    begun = (jnp.zeros(truth.shape, bool), jnp.zeros(truth.shape, jnp.int32), never)
    first = Moving(states, memory, nothing, nothing, jnp.ones_like(nothing), *begun)
    first = first._replace(steps_sure=_sure(setup, context, names, first, truth))
    discount = scenario.world.discounts().astype(nothing.dtype)[truth]

    def kept(moving: Moving) -> Mapping[str, Any]:
        found = {"states": _trials_last(moving.states), **setup.agent.report(context, moving.memory)}
        return {name: found[name] for name in names if name in found}

    def step(moving: Moving, given: tuple[Array, Array]) -> tuple[Moving, tuple]:
        choice, keys = given
        before = kept(moving)

        def answer(probabilities: Array) -> tuple[Array, Any, tuple]:
            actions = choose(choice, probabilities)
            to_world = fold_all(keys, WORLD)
            advance = jax.vmap(scenario.world.advance)
            states, seen, rewards, done = advance(to_world, truth, moving.states, actions)
            seen = _trials_last(seen) if setup.agent.sees == "observation" else None
            return actions, seen, (states, seen, rewards, done, actions)

        memory, turned = turn(setup.agent, context, moving.memory, keys, answer)
        states, seen, rewards, done, actions = turned.outcome
        rewards = jnp.where(moving.done, 0, rewards)
        after = Moving(
            jax.tree.map(lambda new, old: _where_first(moving.done, old, new), states, moving.states),
            jax.tree.map(lambda new, old: jnp.where(moving.done | done, old, new), memory, moving.memory),
            moving.returns + rewards,
            moving.discounted + moving.weight * rewards,
            moving.weight * discount,
            moving.done | done,
            moving.steps + (~moving.done).astype(jnp.int32),
            moving.steps_sure,
        )
        after = after._replace(steps_sure=_sure(setup, context, names, after, truth))
        own = {
            "rewards": rewards,
            "actions": actions,
            "observations": seen,
            "probabilities": turned.probabilities,
        }
        fault = jnp.where(moving.done, 0, turned.fault)
        return after, (before, {name: own[name] for name in names if name in own}, fault)

    given = jax.tree.map(lambda leaf: leaf[:horizon], (noise.choice, noise.step_keys))
    end, (before, done, faults) = jax.lax.scan(step, first, given)
    before = jax.tree.map(lambda steps, last: jnp.concatenate([steps, last[None]]), before, kept(end))
    of_trial = {name: getattr(end, name) for name in ("steps", "steps_sure") if name in names}
    numbers, times = (jnp.arange(size, dtype=jnp.int32) for size in (truth.shape[0], horizon))
    fault = jnp.min(coded(faults, numbers[None, :], times[:, None], horizon), initial=NO_FAULT)
    return truth, end.returns, end.discounted, {**before, **done, **of_trial}, fault


def _sure(setup: Setup, context: Context, names: tuple[str, ...], moving: Moving, truth: Array) -> Array:
    """The first step at which the true model had `SURE` [N]; -1 where it has not."""
    if "steps_sure" not in names:
        return moving.steps_sure
    posterior = setup.agent.report(context, moving.memory)["posterior"]
    own = jnp.take_along_axis(posterior, truth[None, :], axis=0)[0]
    return jnp.where((moving.steps_sure < 0) & (own >= SURE), moving.steps, moving.steps_sure)


def _trials_last(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), tree)


def _where_first(chosen: Array, yes: Array, no: Array) -> Array:
    return jnp.where(chosen.reshape(chosen.shape + (1,) * (yes.ndim - 1)), yes, no)
