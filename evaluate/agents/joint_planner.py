"""`joint_planner`: look-ahead on the joint belief over model and state, with particles and a fixed budget.

A node is the joint belief as `particles` states of every model with weights w(k, i) of sum 1. For every action all
particles move, and `outcomes` observations are drawn from them; each gives a new node, whose weights are multiplied by
O(z | y, a). After `depth` steps the value of a node is that of the best policy from then on,

    q(b, a) = r(b, a) + discount mean_z u(b_z)          u(b) = max_j sum_ki w(k, i) v_j(x_ki; k) at a leaf,
                                                               max_a q(b, a) elsewhere,

where v_j(x; k) is the value of model j's policy in state x of model k. An observation that distinguishes the models
lets the maximum choose j after it, so the planner values information about the model, unlike a mixture of policies.
v_j is a function of the state, as in QMDP, so information about the state has no value beyond `depth` steps.

With tables v_j is solved in advance (`commit_values`: the policy is greedy in the MDP of model j). With simulators it
is one rollout of `horizon` steps by the preferences of model j for each particle, with common random numbers for all
actions and all j. The budget is (A · outcomes)^(depth - 1) · A · particles · K steps, and K · horizon times as many in
rollouts. It is the same for every decision, so N trials run under one vmap.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.evaluate.agents.protocol import Context, agent_class, static
from jatpo.evaluate.agents.simulator_atpo import Inferred, SimulatorATPO
from jatpo.mdp import greedy
from jatpo.model import POMDP
from jatpo.simulators import Simulator, SimulatorLibrary, simulators_of
from jatpo.simulators.particle_choice import systematic
from jatpo.simulators.simulator_protocol import axes, take_entry
from jatpo.ties import share_best

TIE = 1e-4
SWEEPS = 400


class Node(NamedTuple):
    """A joint belief: the states of every model's particles, and their weights of sum 1 in all."""

    states: Any  # [K, M, ...]
    weights: Array  # [K, M]


class Plan(NamedTuple):
    """The constants of one decision."""

    library: SimulatorLibrary
    values: Any  # [J, K, X], or () where rollouts find them
    discount: Array  # []


@agent_class
class JointPlanner(SimulatorATPO):
    """The action with the largest q of the look-ahead; ties are shared."""

    name: str = "joint_planner"
    particles: int = static(default=16)
    outcomes: int = static(default=8)
    depth: int = static(default=1)
    horizon: int = static(default=30)

    @property
    def needs(self) -> tuple[str, ...]:
        return ("commit_values",)

    def refuses(self, library: Any) -> str | None:
        """Policies of one model are followed in another, so their states must be of one kind."""
        if library.simulated and len(library.groups) > 1:
            return f"the models of {library.name} are of {len(library.groups)} kinds, and it needs states of one kind"
        if not library.simulated and len({model.num_states for model in library.members}) > 1:
            return "the models have different state spaces"
        return None

    def decide(self, key: Array, context: Context, memory: Inferred) -> Array:
        """`act` of one trial [A]."""
        return share_best(self.action_values(key, context, memory), TIE)

    def action_values(self, key: Array, context: Context, memory: Inferred) -> Array:
        """q(b, a) of one trial [A]."""
        library = simulators_of(context.library)
        posterior = jnp.exp(memory.log_posterior)
        plan = Plan(library, context.solved["commit_values"], posterior @ library.discounts())
        draw, search = jax.random.split(key)
        keys = jax.random.split(draw, self.particles)

        def of_model(_: Simulator, belief: Any) -> Any:
            return jax.vmap(lambda key: self.filter.sample(key, belief))(keys)

        states = library.each(of_model, memory.beliefs)[0]
        weights = jnp.broadcast_to(posterior[:, None] / self.particles, (len(library), self.particles))
        return self.values_of(search, plan, Node(states, weights), self.depth)

    def values_of(self, key: Array, plan: Plan, node: Node, depth: int) -> Array:
        """q(b, a) of a node [A]."""
        actions = jnp.arange(plan.library.num_actions, dtype=jnp.int32)

        def of_action(action: Array) -> Array:
            return self._value_of(key, plan, node, depth, action)

        return jax.vmap(of_action)(actions)

    def _value_of(self, key: Array, plan: Plan, node: Node, depth: int, action: Array) -> Array:
        move, draw, see, deeper = jax.random.split(key, 4)
        keys = jax.random.split(move, self.particles)  # the same for all models and actions

        def of_model(model: Simulator, states: Any) -> tuple[Any, Array, Array]:
            return jax.vmap(model.step, in_axes=(0, 0, None))(keys, states, action)

        states, rewards, done = plan.library.each(of_model, (node.states,))[0]
        earned = jnp.sum(node.weights * rewards)
        flat = node.weights.reshape(-1)
        drawn, _ = systematic(draw, flat, flat * self.outcomes / jnp.sum(flat), self.outcomes)
        alive = jnp.where(done, 0, node.weights)
        leaf = self._leaf_values(deeper, plan, states) if depth == 1 else None

        def of_outcome(key: Array, place: Array) -> Array:
            k, i = jnp.divmod(place, self.particles)
            source = take_entry(plan.library.groups[0], k)
            seen = source.observe(key, jax.tree.map(lambda part: part[k, i], states), action)
            weights = _reweighed(plan.library, states, alive, action, seen)
            if leaf is not None:
                worth = jnp.max(jnp.sum(weights[None] * leaf, axis=(1, 2)))
            else:
                after = jax.random.fold_in(deeper, 1)
                worth = jnp.max(self.values_of(after, plan, Node(states, weights), depth - 1))
            return jnp.where(done[k, i], 0, worth)

        worth = jax.vmap(of_outcome)(jax.random.split(see, self.outcomes), drawn)
        return earned + plan.discount * jnp.mean(worth)

    def _leaf_values(self, key: Array, plan: Plan, states: Any) -> Array:
        """v_j(x_ki; k) [J, K, M]."""
        if not isinstance(plan.values, tuple):
            models = jnp.arange(len(plan.library), dtype=jnp.int32)[:, None]
            return plan.values[:, models, states]
        group = plan.library.groups[0]
        places = (axes(group), None)
        return jax.vmap(lambda guide, states: self._rolled(key, plan, guide, states), places)(group, states)

    def _rolled(self, key: Array, plan: Plan, guide: Simulator, states: Any) -> Array:
        """What the preferences of `guide` earn from the states [K, M]."""

        def of_particle(model: Simulator, key: Array, state: Any) -> Array:
            def step(carry: tuple, key: Array) -> tuple[tuple, None]:
                state, total, weight = carry
                choose, move = jax.random.split(key)
                action = jax.random.categorical(choose, jnp.log(guide.preferences(state))).astype(jnp.int32)
                state, reward, done = model.step(move, state, action)
                return (state, total + weight * reward, jnp.where(done, 0, weight * plan.discount)), None

            keys = jax.random.split(key, self.horizon)
            nothing = jnp.zeros((), plan.discount.dtype)
            begun = (state, nothing, jnp.where(model.final(state), 0, 1).astype(nothing.dtype))
            return jax.lax.scan(step, begun, keys)[0][1]

        keys = jax.random.split(key, self.particles)

        def of_model(model: Simulator, own: Any) -> Array:
            return jax.vmap(of_particle, in_axes=(None, 0, 0))(model, keys, own)

        return plan.library.each(of_model, (states,))[0]


def _reweighed(library: SimulatorLibrary, states: Any, weights: Array, action: Array, seen: Any) -> Array:
    """Weights [K, M] after an observation, of sum 1; as they were where nothing explains it."""

    def of_model(model: Simulator, own: Any) -> Array:
        return jax.vmap(model.log_observation, in_axes=(0, None, None))(own, action, seen)

    logs = library.each(of_model, (states,))[0]
    logs = jnp.where(weights > 0, logs, -jnp.inf)
    peak = jnp.max(logs)
    some = peak > -jnp.inf
    joint = weights * jnp.exp(logs - jnp.where(some, peak, 0))
    total = jnp.sum(joint)
    return jnp.where(some, joint / jnp.where(total > 0, total, 1), weights)


@jax.jit
def commit_values(models: POMDP, q: Array) -> Array:
    """What the greedy policy of model j earns from every state of model k [J, K, X], from q* [K, X, A]."""

    def of_pair(policy: Array, model: POMDP) -> Array:
        def sweep(_: int, values: Array) -> Array:
            after = model.transition.expect(values)
            return jnp.sum(policy * (model.reward + model.discount * after), axis=1)

        return jax.lax.fori_loop(0, SWEEPS, sweep, jnp.zeros(q.shape[1], q.dtype))

    return jax.vmap(lambda policy: jax.lax.map(lambda model: of_pair(policy, model), models))(greedy(q))
