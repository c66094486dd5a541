"""Training the recurrent classifier of histories by models, on histories that are simulated (`RecurrentATPO`).

True models are drawn uniformly. In half of the histories ATPO acts, in half the random picker. The loss is the mean of
-log p(true model) over all steps. Every round plays new histories and passes over them a few times, so the memory does
not grow with their number. The state is kept after each round, and the same call resumes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from jatpo.disk import Arrays, Checkpoints, from_arrays, to_arrays
from jatpo.errors import JatpoError
from jatpo.evaluate import recurrent_network
from jatpo.evaluate.agents.atpo import ATPO, RandomPicker
from jatpo.evaluate.agents.protocol import Agent
from jatpo.evaluate.agents.simulator_atpo import SimulatorATPO
from jatpo.evaluate.recurrent_network import Network, features_of
from jatpo.evaluate.rollout import rollout
from jatpo.evaluate.simulator_scenario import scenario_of
from jatpo.events import Event, OnEvent, ignore
from jatpo.simulators import Particles, SimulatorLibrary, simulators_of
from jatpo.tables import Row

FILTER = Particles(64)  # of those who act in simulators


@dataclass(frozen=True)
class Training:
    """How much and how to train."""

    histories: int = 32_768
    of_round: int = 2_048
    passes: int = 4  # over the histories of a round
    batch: int = 128
    hidden: int = 64
    rate: float = 3e-3

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not value > 0:
                raise JatpoError(f"{name} is {value}, expected more than 0")
        if self.histories % self.of_round or self.of_round % self.batch:
            raise JatpoError(
                f"histories={self.histories} must be a multiple of of_round={self.of_round}, and that one of "
                f"batch={self.batch}"
            )

    @property
    def rounds(self) -> int:
        """How many times new histories are played."""
        return self.histories // self.of_round


def train(
    library: Any,
    solved: Mapping[str, Any],
    key: Array,
    training: Training = Training(),  # noqa: B008 - frozen
    checkpoints: Checkpoints | None = None,
    on_event: OnEvent = ignore,
) -> tuple[Network, list[Row]]:
    """The network, and a row for every round: the number of histories and the mean loss, in nats a step."""
    simulators = simulators_of(library)
    seen = jax.eval_shape(partial(features_of, simulators), _example(library))
    sizes = seen.shape[-1], library.num_actions, training.hidden, library.num_models
    to_begin, to_play, to_mix = jax.random.split(key, 3)
    network = recurrent_network.random_network(to_begin, *sizes)
    optimiser = _optimiser(training)
    state: Any = (network, optimiser.init(network))
    state, curve = _resume(checkpoints, state)
    behaviours = _behaviours(simulated=library.simulated)
    for number in range(len(curve), training.rounds):
        agent = behaviours[number % len(behaviours)]
        histories = play(jax.random.fold_in(to_play, number), agent, library, solved, training.of_round)
        order = jax.random.fold_in(to_mix, number)
        state, loss = _improve(training, simulators, state, histories, order)
        curve.append({"histories": (number + 1) * training.of_round, "loss": float(loss)})
        if checkpoints:
            checkpoints.save_newest("round-", number + 1, {"curve": curve}, to_arrays(state))
        title = f"training a classifier for {library.name}"
        on_event(Event(title, number + 1, training.rounds, {"log-loss": float(loss)}))
    return jax.tree.map(jnp.asarray, state[0]), curve


def play(
    key: Array, agent: Agent, library: Any, solved: Mapping[str, Any], count: int
) -> tuple[Array, Array, Any, Array]:
    """Truth [N], actions [N, T], observations [N, T, ...] and which steps count [N, T] of simulated histories."""
    names = ("actions", "observations")
    record = (*names, "steps") if library.simulated else names
    trials = rollout(key, agent, scenario_of(library), solved, trials=count, record=record)
    actions, observations = (trials.records[name] for name in names)
    horizon = actions.shape[1]
    steps = trials.records.get("steps", np.full(count, horizon))
    counted = np.arange(horizon)[None, :] < steps[:, None]
    return jax.tree.map(jnp.asarray, (trials.truth, actions, observations, counted))


def _behaviours(simulated: bool) -> tuple[Agent, ...]:
    """Who acts in the histories."""
    if not simulated:
        return ATPO(), RandomPicker()
    picker = SimulatorATPO(name="particle_picker", temper=0.0, flat=True, filter=FILTER)
    return SimulatorATPO(filter=FILTER), picker


def _example(library: Any) -> Any:
    """An observation of one step, for its shape."""
    if not library.simulated:
        return jnp.zeros((), jnp.int32)
    return jax.tree.map(lambda leaf: leaf[..., 0], library.example_observations(1))


def _optimiser(training: Training) -> optax.GradientTransformation:
    steps = training.rounds * training.passes * (training.of_round // training.batch)
    schedule = optax.cosine_decay_schedule(training.rate, steps, alpha=0.02)
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(schedule))


def history_loss(
    network: Network,
    library: SimulatorLibrary,
    truth: Array,
    actions: Array,
    observations: Any,
    counted: Array,
) -> Array:
    """The mean of -log p(true model) over the steps of one history that count []."""

    def step(hidden: Array, given: tuple[Array, Any]) -> tuple[Array, Array]:
        action, observation = given
        hidden = recurrent_network.advance(network, hidden, action, features_of(library, observation))
        return hidden, -jax.nn.log_softmax(recurrent_network.scores(network, hidden))[truth]

    losses = jax.lax.scan(step, recurrent_network.first_state(network), (actions, observations))[1]
    return jnp.sum(jnp.where(counted, losses, 0)) / jnp.maximum(jnp.sum(counted, dtype=jnp.float32), 1)


@partial(jax.jit, static_argnums=0)
def _improve(
    training: Training, library: SimulatorLibrary, state: Any, histories: Any, key: Array
) -> tuple[Any, Array]:
    """The state after all passes over `histories`, and the mean loss of the first pass, before it was fitted."""
    optimiser = _optimiser(training)
    each = jax.vmap(history_loss, in_axes=(None, None, 0, 0, 0, 0))

    def mean_loss(network: Network, batch: Any) -> Array:
        return jnp.mean(each(network, library, *batch))

    def improve(state: Any, numbers: Array) -> tuple[Any, Array]:
        network, moments = state
        batch = jax.tree.map(lambda leaf: leaf[numbers], histories)
        loss, slope = jax.value_and_grad(mean_loss)(network, batch)
        with jax.numpy_dtype_promotion("standard"):
            change, moments = optimiser.update(slope, moments, network)
            network = optax.apply_updates(network, change)
        return (network, moments), loss

    count = histories[0].shape[0]
    orders = [jax.random.permutation(each, count) for each in jax.random.split(key, training.passes)]
    numbers = jnp.concatenate(orders).reshape(-1, training.batch)
    state, losses = jax.lax.scan(improve, state, numbers)
    return state, jnp.mean(losses[: count // training.batch])


def _resume(checkpoints: Checkpoints | None, state: Any) -> tuple[Any, list[Row]]:
    """The newest state that was kept, or the one given."""

    def read(meta: Row, arrays: Arrays) -> tuple[Any, list[Row]]:
        return from_arrays(arrays, state), meta["curve"]

    found = checkpoints.load_newest("round-", read) if checkpoints else None
    return found or (state, [])
