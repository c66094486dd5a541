"""The two operations of the filter on N beliefs as columns [X, N], with backward passes that suit a CPU.

    predicted(y) = sum_x b(x) P(y | x, a)                       `push`
    b'(y)        = O(z | y, a) predicted(y) / evidence          `weigh`

Reverse mode would turn every gather of the blocked storage into a scatter, one element at a time. Here the
backward pass of a push is a pull along the successor lists, which is a gather again. The gradient of P arrives in
`transition.probability` and that of O in `observation.probability`, in both storages; the predecessor lists
(`inflow`, `hub_inflow`), which hold the same numbers once more, get none.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.storage import BlockedObservation, BlockedTransition, DenseTransition, Observation, Transition

PIECES = 16  # that sums over histories are cut into; with fewer, XLA's loops do not vectorise
SMALL = 1 << 16  # entries of a table of classes by observations that is made anew at every step


def push(transition: Transition, beliefs: Array, actions: Array) -> Array:
    """sum_x b(x) P(y | x, a) of every column [X, N] under its own action [N]: [X, N]."""
    if isinstance(transition, DenseTransition):
        return _push_dense(transition, beliefs, actions)
    return _push_blocked(transition, beliefs, actions)


def _push_dense(transition: DenseTransition, beliefs: Array, actions: Array) -> Array:
    chosen = jnp.zeros_like(beliefs)
    for a in range(transition.num_actions):
        own = jnp.where((actions == a)[None, :], beliefs, 0)
        chosen = chosen + jnp.einsum("xy,xn->yn", transition.probability[a], own)
    return chosen


@jax.custom_vjp
def _push_blocked(transition: BlockedTransition, beliefs: Array, actions: Array) -> Array:
    numbers = jnp.arange(beliefs.shape[0], dtype=jnp.int32)
    place = (numbers[:, None] == transition.hub[None, :]).astype(beliefs.dtype)  # [X, H]

    def of_action(action: Array, arriving: Array) -> Array:
        index, weight = transition.predecessor[action], transition.inflow[action]  # [X, Q]
        terms = (_rows(beliefs, index[:, q]) * weight[:, q, None] for q in range(index.shape[1]))
        pushed = sum(terms, place @ (transition.hub_inflow[action] @ beliefs))
        return arriving + jnp.where((actions == action)[None, :], pushed, 0)

    return jax.lax.fori_loop(0, transition.num_actions, of_action, jnp.zeros_like(beliefs))


def _push_forward(transition: BlockedTransition, beliefs: Array, actions: Array) -> tuple[Array, tuple]:
    return _push_blocked(transition, beliefs, actions), (transition, beliefs, actions)


def _push_backward(kept: tuple, given: Array) -> tuple:
    """By the belief: P pulled along the successors; by P(y | x, a): sum over histories of b(x) given(y)."""
    transition, beliefs, actions = kept
    numbers = jnp.arange(transition.num_actions, dtype=actions.dtype)
    chosen = (numbers[:, None] == actions[None, :]).astype(beliefs.dtype)  # [A, N]
    beliefs, given, chosen = (_even(part) for part in (beliefs, given, chosen))

    def of_action(pulled: Array, lists: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        index, weight, own = lists  # [X, S], [X, S], [N]
        terms = (_rows(given, index[:, s]) * weight[:, s, None] for s in range(index.shape[1]))
        return pulled + jnp.where(own[None, :] > 0, sum(terms), 0), _products(beliefs, given, own, index)

    lists = (transition.successor, transition.probability, chosen)
    pulled, by_entry = jax.lax.scan(of_action, jnp.zeros_like(beliefs), lists)
    return _only(transition, by_entry), pulled[:, : actions.shape[0]], None


def _even(columns: Array) -> Array:
    """[X, N] with columns of 0 at the end, so that it can be cut into `PIECES`."""
    return jnp.pad(columns, ((0, 0), (0, -columns.shape[1] % PIECES)))


def _products(beliefs: Array, given: Array, own: Array, index: Array) -> Array:
    """sum_n own[n] beliefs[x, n] given[index[x, s], n] [X, S].

    The histories are cut into pieces that are added up first, which vectorises as a sum over n does not; the rest is
    a matrix product, since XLA would fuse a sum with what comes before it and undo that.
    """

    def of_piece(own: Array, beliefs: Array, given: Array) -> Array:
        following = _rows(given, index.reshape(-1)).reshape(*index.shape, given.shape[1])
        return (own * beliefs)[:, None, :] * following

    cut = (jnp.split(part, PIECES, axis=1) for part in (own[None, :], beliefs, given))
    partial_sums = sum(map(of_piece, *cut))  # [X, S, N / PIECES]
    return partial_sums @ jnp.ones(given.shape[1] // PIECES, given.dtype)


_push_blocked.defvjp(_push_forward, _push_backward)


@jax.custom_vjp
def weigh(
    observation: Observation, predicted: Array, actions: Array, observations: Array
) -> tuple[Array, Array]:
    """`predicted` [X, N] given what was seen after each action [N], and the log evidence [N].

    An impossible observation leaves the predicted belief and a log evidence of -inf, with gradient 0.
    """
    return _weigh_forward(observation, predicted, actions, observations)[0]


def _weigh_forward(
    observation: Observation, predicted: Array, actions: Array, observations: Array
) -> tuple[tuple[Array, Array], tuple]:
    joint = predicted * likelihood(observation, actions, observations)
    evidence = _column_sums(joint)
    possible = evidence >= jnp.finfo(evidence.dtype).tiny  # its inverse is finite
    scale = jnp.where(possible, 1 / jnp.where(possible, evidence, 1), 0)
    beliefs = jnp.where(possible[None, :], joint * scale[None, :], predicted)
    log_evidence = jnp.where(possible, jnp.log(jnp.where(possible, evidence, 1)), -jnp.inf)
    # The next push keeps the beliefs anyway. What was predicted is needed for entries of O that are 0 only, and
    # lists of possible observations have none.
    needed = None if isinstance(observation, BlockedObservation) else predicted
    return (beliefs, log_evidence), (observation, needed, beliefs, scale, actions, observations)


def _weigh_backward(kept: tuple, given: tuple[Array, Array]) -> tuple:
    """With b' = joint / e, by joint(y): (given(y) - sum b' given + given of log e) / e."""
    observation, predicted, beliefs, scale, actions, observations = kept
    by_belief, by_evidence = given
    possible = (scale > 0)[None, :]
    common = by_evidence - _column_sums(beliefs * by_belief)
    by_joint = jnp.where(possible, by_belief + common[None, :], 0)  # times e
    weights = likelihood(observation, actions, observations)
    by_predicted = jnp.where(possible, weights * by_joint * scale[None, :], by_belief)
    if predicted is None:
        by_entry = _by_class(observation, beliefs * by_joint, actions, observations)
    else:
        by_weight = (predicted * by_joint * scale[None, :]).T
        by_entry = jnp.zeros_like(observation.probability).at[actions, :, observations].add(by_weight)
    return _only(observation, by_entry), by_predicted, None, None


weigh.defvjp(_weigh_forward, _weigh_backward)


def likelihood(observation: Observation, actions: Array, observations: Array) -> Array:
    """O(z | y, a) for every state y, for each of the actions and observations [N]: [X, N]."""
    if isinstance(observation, BlockedObservation) and observation.kind.shape[0] == 1:
        classes, listed = observation.symbol.shape
        if listed > 1 and classes * observation.num_observations <= SMALL:
            of_class = observation.class_rows().T[observations]  # [N, C]
            return _rows(of_class.T, observation.kind[0])
    return observation.likelihood_all(actions, observations)


def _by_class(observation: BlockedObservation, shares: Array, actions: Array, observations: Array) -> Array:
    """By O(z | class): `shares` [X, N] summed over the states of the class and the histories that saw z, over O."""
    by_class = _class_sums(observation, actions, shares)  # [C, N]
    symbols = jnp.arange(observation.num_observations, dtype=observations.dtype)
    seen = (observations[:, None] == symbols[None, :]).astype(shares.dtype)  # [N, Z]
    total = jnp.take_along_axis(by_class @ seen, observation.symbol, axis=1)
    listed = observation.probability > 0
    return jnp.where(listed, total / jnp.where(listed, observation.probability, 1), 0)


def _class_sums(observation: BlockedObservation, actions: Array, given: Array) -> Array:
    """Sums of the rows of `given` [X, N] over the states of each class: [C, N]. Whole rows are scattered."""
    classes = observation.symbol.shape[0]
    if observation.kind.shape[0] == 1:
        return jax.ops.segment_sum(given, observation.kind[0], classes)

    def of_action(action: Array, total: Array) -> Array:
        own = jnp.where((actions == action)[None, :], given, 0)
        return total + jax.ops.segment_sum(own, observation.kind[action], classes)

    nothing = jnp.zeros((classes, given.shape[1]), given.dtype)
    return jax.lax.fori_loop(0, observation.kind.shape[0], of_action, nothing)


def _rows(array: Array, index: Array) -> Array:
    """`array[index]` for an index that is known to be within bounds, which saves checks in inner loops."""
    return array.at[index].get(mode="promise_in_bounds")


def _column_sums(rows: Array) -> Array:
    """The sum of every column [X, N]: [N]; as a product, since a sum over the first axis does not vectorise."""
    return jnp.ones(rows.shape[0], rows.dtype) @ rows


def _only(storage: Transition | Observation, by_entry: Array) -> Any:
    """The gradient of a storage: `by_entry` for its probabilities and nothing for the rest."""
    arrays = [part.name for part in dataclasses.fields(storage) if part.name != "num_observations"]
    nothing: dict[str, Any] = dict.fromkeys(arrays)
    return dataclasses.replace(storage, **(nothing | {"probability": by_entry}))
