"""One trial of a rollout with all that a replay needs, recording little more than returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo.evaluate.agents.protocol import Agent, Context, agent_class
from jatpo.evaluate.rollout import chunk_size, reported, run_chunks
from jatpo.evaluate.scenario import Scenario, needed
from jatpo.evaluate.simulator_scenario import scenario_of
from jatpo.evaluate.trials import Trials

if TYPE_CHECKING:
    from jatpo.evaluate.solved import Solved
    from jatpo.model import POMDP

LEADING = "leading belief"
ALWAYS = ("rewards", "actions", "observations", "probabilities", "states")


def roll(solved: Solved, agent: Agent, seed: int, trial: int, model: int | None, horizon: int) -> Trials:
    """The records of one trial [1, ...]; with `model` as the true one if it is given."""
    library = solved.library
    scenario = scenario_of(library) if model is None else _forced(library, model)
    chunk, slot = divmod(trial, chunk_size(scenario.library))
    watched = Watching(agent, slot)
    own = needed(agent, solved, library)
    known = reported(watched, scenario, own)
    extra = [name for name in ("posterior", "entropy", LEADING) if name in known]
    extra += ["steps"] if library.simulated else []  # of tables, `end` finds out
    runs = run_chunks(jax.random.key(seed), watched, scenario, own, horizon, [chunk], (*ALWAYS, *extra))
    ((_, trials),) = runs
    records = {
        name: part if name == LEADING else jax.tree.map(lambda leaf: leaf[slot : slot + 1], part)
        for name, part in trials.records.items()
    }
    one = {name: getattr(trials, name)[slot : slot + 1] for name in trials._fields if name != "records"}
    return trials._replace(**one, records=records)


def _forced(library: Any, model: int) -> Scenario:
    """The scenario with `model` as the true one in every trial."""
    (library.entry if library.simulated else library.member)(model)  # refuses an unknown model
    return scenario_of(library, weights=np.eye(library.num_models)[model])


@agent_class
class Watching:
    """An agent that reports one thing more: of trial `slot` alone the belief of the model that leads there [X, 1].

    The beliefs of a whole chunk of trials would take gigabytes. The slot is traced, so that all trials share a
    compiled program.
    """

    agent: Agent
    slot: int | Array

    @property
    def name(self) -> str:
        """The agent's."""
        return self.agent.name

    @property
    def sees(self) -> str:
        """As the agent."""
        return self.agent.sees

    @property
    def knows(self) -> str:
        """As the agent."""
        return self.agent.knows

    @property
    def needs(self) -> tuple[str, ...]:
        """As the agent."""
        return self.agent.needs

    @property
    def plays(self) -> tuple[str, ...]:
        """As the agent."""
        return getattr(self.agent, "plays", ("tables",))

    def init(self, keys: Array, context: Context, seen: Any) -> Any:
        """As the agent."""
        return self.agent.init(keys, context, seen)

    def act(self, keys: Array, context: Context, memory: Any) -> Array:
        """As the agent."""
        return self.agent.act(keys, context, memory)

    def update(self, keys: Array, context: Context, memory: Any, actions: Array, seen: Any) -> Any:
        """As the agent."""
        return self.agent.update(keys, context, memory, actions, seen)

    def refuses(self, library: Any) -> str | None:
        """As the agent."""
        return self.agent.refuses(library)

    def report(self, context: Context, memory: Any) -> dict[str, Any]:
        """What the agent reports, and the leading belief where it has one."""
        found = self.agent.report(context, memory)
        posterior, beliefs = found.get("posterior"), found.get("beliefs")
        if posterior is None or beliefs is None or (posterior.ndim, beliefs.ndim) != (2, 3):
            return found
        leader = beliefs[jnp.argmax(posterior[:, self.slot])]
        return {**found, LEADING: jnp.take(leader, jnp.asarray(self.slot)[None], axis=1)}


def end(model: POMDP, states: np.ndarray) -> int:
    """The step at which a state is reached that is absorbing and has no reward; the last one otherwise."""
    last = int(states[-1])
    here = jnp.asarray(np.eye(1, model.num_states, last)[0], model.dtype)
    stays = all(
        float(model.transition.predict(here, jnp.int32(a))[last]) == 1.0 for a in range(model.num_actions)
    )
    if not stays or np.asarray(model.reward[last]).any():
        return len(states) - 1
    return int(np.argmax(states == last))
