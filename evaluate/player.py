"""One agent in a user's own loop: a robot, a game, another simulator.

    player = jatpo.agent("atpo", "gridworld", seed=0)
    player.reset()
    while running:
        action = player.act()
        player.observe(action, observation=robot.execute(action))

It is the agent of the rollouts with N = 1: the same turn in two halves, compiled once at the first `reset`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo.errors import JatpoError, unknown
from jatpo.evaluate.agents import catalogue
from jatpo.evaluate.agents.protocol import Agent, Context, Memory, choose, informed, permit, sight
from jatpo.evaluate.scenario import context_of, needed, refuse
from jatpo.evaluate.simulator_scenario import scenario_of
from jatpo.evaluate.solved import Solved, SolveOptions
from jatpo.evaluate.turn import check_shapes, complain, decide, whole_number
from jatpo.files import load
from jatpo.files.sources import Source
from jatpo.library import Library
from jatpo.model import POMDP


@jax.jit
def _begin(
    agent: Agent, key: Array, episode: Array, context: Context, seen: Array | None
) -> tuple[Array, Memory, Array, Array]:
    """The episode's key, the memory before the first action, the probabilities of the actions [A, 1], their fault."""
    key = jax.random.fold_in(key, episode)
    first, plan = jax.random.split(jax.random.fold_in(key, 0))
    memory = agent.init(first[None], context, seen)
    return key, memory, *decide(agent, context, memory, plan[None])


@jax.jit
def _advance(
    agent: Agent,
    key: Array,
    step: Array,
    context: Context,
    memory: Memory,
    action: Array,
    seen: Array | None,
) -> tuple[Memory, Array, Array]:
    """The memory after one step, the probabilities of the actions that follow [A, 1] and their fault."""
    plan = jax.random.fold_in(key, step)
    memory = agent.update(jax.random.fold_in(plan, 2)[None], context, memory, action, seen)
    return memory, *decide(agent, context, memory, plan[None])


@jax.jit
def _choose(key: Array, step: Array, probabilities: Array) -> Array:
    uniform = jax.random.uniform(jax.random.fold_in(key, step), (1,), probabilities.dtype)
    return choose(uniform, probabilities)[0]


def agent(
    agent: str | Agent,
    library: Source | Solved,
    *,
    seed: int = 0,
    prior: Sequence[float] | None = None,
    true_model: int | None = None,
    options: SolveOptions | None = None,
) -> Player:
    """A player for a robot's loop: an agent, or its name, with a library, its name, or one that is solved.

    A loop may never end, so an agent of jatpo that is given by name holds beliefs that lose no state
    (`jatpo.beliefs.Scaled`) where it can, in models of up to 20,000 states; an `Agent` is taken as it is. What is not
    solved yet is solved as the commands do (`jatpo.solve.defaults`), and kept where they keep it.
    """
    chosen = catalogue.get(agent) if isinstance(agent, str) else agent
    if isinstance(library, Solved):
        solved = library
    else:
        loaded = library if isinstance(library, Library) else load(library)
        solved = Solved(loaded, options=options or SolveOptions())
    if isinstance(agent, str) and not solved.library.simulated:
        chosen = catalogue.without_horizon(chosen, solved.library.num_states)
    return Player(chosen, solved.library, solved, prior=prior, true_model=true_model, seed=seed)


class Player:
    """An agent that acts in one world at a time. Actions and observations are given by number or name."""

    def __init__(
        self,
        agent: Agent,
        library: Library | Sequence[POMDP],
        solved: Mapping[str, Any] | None = None,
        *,
        prior: Sequence[float] | None = None,
        true_model: int | None = None,
        seed: int = 0,
    ) -> None:
        """`solved` is a `Solved` or holds what the agent needs, by name; an informed agent needs `true_model`."""
        models = library if hasattr(library, "simulated") else Library.from_models(library)
        scenario = scenario_of(models, prior=prior)
        refuse(agent, scenario.library)
        if informed(agent) and true_model is None:
            raise JatpoError(f"agent '{agent.name}' knows the true model: say which one with true_model=")
        self.agent, self.library = agent, scenario.library
        self._names = scenario.library.names[0] if scenario.library.names else None
        count = scenario.library.num_models
        number = 0 if true_model is None else whole_number("true model", true_model, count)
        truth = jnp.full(1, number, jnp.int32)
        self._traced = jax.tree.map(jnp.asarray, agent)
        given = needed(agent, {} if solved is None else solved, scenario.library)
        everything = context_of(scenario, given, scenario.prior[:, None])
        self._context = permit(agent, everything, jnp.asarray(informed(agent)), truth)
        numbers = jnp.zeros(1, jnp.int32)
        observed = self.library.example_observations(1) if self.library.simulated else numbers
        seen = sight(agent, numbers, None), sight(agent, numbers, observed)
        check_shapes(self._traced, self._context, seen, 1)
        self._seed = jax.random.key(seed)
        self._episode, self._step = -1, 0
        self._memory: Memory = None

    def reset(self, state: int | str | None = None) -> None:
        """Begin another episode; the first one begins by itself, but agents that see states need their first state."""
        seen = self._seen(state, first=True)
        self._episode += 1
        self._step = 0
        self._key, self._memory, self._probabilities, wrong = _begin(
            self._traced, self._seed, np.uint32(self._episode), self._context, seen
        )
        self._check(wrong)

    def act(self) -> int:
        """The number of the next action, drawn from `probabilities`."""
        self._ensure_begun()
        return int(_choose(self._key, self._next_step(), self._probabilities))

    def observe(self, action: int | str, observation: Any = None) -> None:
        """Take in that `action` was done and what was seen then (for agents that see states: the state)."""
        self._ensure_begun()
        number = self._number("action", action, self.library.num_actions, 1)
        seen = self._seen(observation)
        self._memory, self._probabilities, wrong = _advance(
            self._traced,
            self._key,
            self._next_step(),
            self._context,
            self._memory,
            np.full(1, number, np.int32),
            seen,
        )
        self._check(wrong)

    @property
    def probabilities(self) -> np.ndarray:
        """The probabilities of the next action [A]."""
        self._ensure_begun()
        return np.asarray(self._probabilities[:, 0])

    @property
    def posterior(self) -> np.ndarray:
        """The probability of each model [K]."""
        return self._report("posterior")

    @property
    def beliefs(self) -> np.ndarray:
        """The belief over the states of each model [K, X]."""
        return self._report("beliefs")

    def report(self) -> dict[str, np.ndarray]:
        """Everything the agent reports of its memory, by name."""
        self._ensure_begun()
        found = self._traced.report(self._context, self._memory)
        return {name: np.asarray(part[..., 0]) for name, part in found.items()}

    def __repr__(self) -> str:
        return f"Player({self.agent.name} in {self.library.name}, episode {self._episode}, step {self._step})"

    def _report(self, name: str) -> np.ndarray:
        found = self.report()
        if name not in found:
            raise JatpoError(
                f"agent '{self.agent.name}' has no {name}; it reports {', '.join(found) or 'nothing'}"
            )
        return found[name]

    def _next_step(self) -> np.uint32:
        """A number for the next key of this episode."""
        self._step += 1
        return np.uint32(self._step)

    def _check(self, wrong: Array) -> None:
        complain(self.agent, int(wrong[0]), f"after {self._step} steps of the player")

    def _ensure_begun(self) -> None:
        """Begin the first episode, unless the agent sees states: then `reset` has to be given the first one."""
        if self._episode < 0:
            self.reset()

    def _seen(self, seen: Any, first: bool = False) -> Any:
        """What the agent sees [1]; None where it declared so, and before the first action."""
        sees = self.agent.sees
        if sees == "nothing" or (sees == "observation" and first):
            return None
        if seen is None:
            raise JatpoError(f"agent '{self.agent.name}' sees the {sees}: give it")
        if self.library.simulated:
            return self._as_shaped(seen)
        sizes = {"state": (self.library.num_states, 0), "observation": (self.library.num_observations, 2)}
        return np.full(1, self._number(sees, seen, *sizes[sees]), np.int32)

    def _as_shaped(self, seen: Any) -> Any:
        """An observation of simulators [..., 1]; refuses one of another structure or shape."""
        wanted = self.library.example_observations(1)

        def one(like: Array, leaf: Any) -> np.ndarray:
            found = np.asarray(leaf)[..., None]
            if found.shape != like.shape:
                raise JatpoError(
                    f"the observation has shape {list(found.shape[:-1])}, expected {list(like.shape[:-1])}"
                )
            return found.astype(like.dtype)

        try:
            return jax.tree.map(one, wanted, seen)
        except (TypeError, ValueError) as error:
            text = f"the observation is {seen!r}: give what `observe` of the simulators returns"
            raise JatpoError(text) from error

    def _number(self, kind: str, value: int | str, size: int, field: int) -> int:
        """The number of an action, observation or state given by number or name."""
        if isinstance(value, str):
            names = (self._names[field] if self._names else None) or ()
            if value not in names:
                raise unknown(kind, value, names)
            return names.index(value)
        return whole_number(kind, value, size)
