"""The agents that commands know by name. A user's own agent joins them with a decorator:

    @register
    class AlwaysFirst:
        name, sees, knows = "always-first", "nothing", "nothing"
        def init(self, key, context, seen): return ()
        def act(self, key, context, memory): return jnp.eye(context.actions.shape[0])[0]
        def update(self, key, context, memory, action, seen): return memory

The methods are written for one trial (key [], context.prior [K], seen []; `act` gives [A]); `@register(columns=True)`
says that they are written for N trials at once, with the trial on the last axis. Annotated fields of the class are
its parameters, which are traced. The file is named in JATPO_EXTENSIONS (`jatpo.registry`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from jatpo.beliefs import Dense, Scaled
from jatpo.errors import unknown
from jatpo.evaluate.agents.atpo import ATPO, Informed, RandomPicker, StateATPO, StateInformed
from jatpo.evaluate.agents.bayes import Bayes
from jatpo.evaluate.agents.bopa import BOPA, Random, ValueIteration
from jatpo.evaluate.agents.joint_planner import JointPlanner
from jatpo.evaluate.agents.lookahead import Lookahead, Q
from jatpo.evaluate.agents.protocol import Agent, agent_class, check_declaration, for_each_trial
from jatpo.evaluate.agents.recurrent_atpo import RecurrentATPO
from jatpo.evaluate.agents.selecting import Commit, MostLikely, StateCommit, Vote
from jatpo.evaluate.agents.simulator_atpo import SimulatorATPO, SimulatorCommit, SimulatorInformed
from jatpo.evaluate.agents.soft_atpo import SoftATPO
from jatpo.registry import Registry

AGENTS: Registry[Agent] = Registry("agent")
get, names, load, remove = AGENTS.get, AGENTS.names, AGENTS.load, AGENTS.remove


def add(agent: Agent) -> Agent:
    """Enter an agent under its name."""
    check_declaration(agent)
    return AGENTS.add(agent.name, agent)


def register(cls: type | None = None, *, columns: bool = False) -> Any:
    """Class decorator that enters an agent with the default parameters of the class, under its name."""

    def enter(cls: type) -> type:
        made = agent_class(cls if columns else for_each_trial(cls))
        add(made())
        return made

    return enter if cls is None else enter(cls)


PAPER = ("value_iteration", "perseus", "atpo", "random_picker", "bopa", "random")
PRESETS = {"exact": 0.0, "as_run": 1e-8}
"""The floor of the filters: none, or that of the published program."""


def choose_agents(agents: Sequence[str | Agent] = PAPER, preset: str = "exact") -> list[Agent]:
    """Agents, or those of these names, each once, with the floor of `preset` where they have one."""
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    chosen: list[Any] = [get(each) if isinstance(each, str) else each for each in dict.fromkeys(agents)]
    floor = PRESETS[preset]
    return [dataclasses.replace(agent, floor=floor) if hasattr(agent, "floor") else agent for agent in chosen]


MOST_STATES = 20_000  # of a model for which a player by name holds `Scaled` beliefs


def without_horizon(agent: Agent, num_states: int) -> Agent:
    """One of jatpo's agents with beliefs in which no state is lost however long it runs; another's as it is.

    In larger models the tails of beliefs take many levels, and a step as many times as long: it is as it is there, too.
    """
    own: Any = agent
    if (
        num_states > MOST_STATES
        or not hasattr(own, "belief")
        or not type(own).__module__.startswith("jatpo.")
    ):
        return agent
    exact = own.belief == Dense() and own.floor == 0
    return dataclasses.replace(own, belief=Scaled()) if exact else agent


_BUILT_IN: tuple[Callable[[], Agent], ...] = (
    ValueIteration,
    Informed,
    ATPO,
    RandomPicker,
    BOPA,
    Random,
    MostLikely,
    Vote,
    Commit,
    Q,
    Lookahead,
    Bayes,
    SoftATPO,
    SimulatorATPO,
    SimulatorInformed,
    SimulatorCommit,
    JointPlanner,
    RecurrentATPO,
    StateInformed,
    StateATPO,
    StateCommit,
)
for _make in _BUILT_IN:
    add(_make())
AGENTS.protect()
