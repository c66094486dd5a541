"""What an agent is: three pure functions on pytrees, and a declaration of what it may see and know.

    memory        = init(keys, knowledge, seen)
    probabilities = policy(keys, knowledge, memory)            [A, N]
    memory        = observe(knowledge, memory, actions, seen)

The functions work on N trials at once, the trial being the last axis of every array (a belief is [X, N]):
gathers then move whole rows, which is what makes thousands of trials cheap. `lift` makes them from
functions written for one trial. All are pure and run under jit, vmap and scan.

The runner hands over no more than is declared. `sees` says what `seen` [N] is: the state, the observation or
None. `knows` says what `Knowledge` holds: the true model (a prior that is certain of it), the library (the
user's prior), or nothing but the actions.

Shapes: A actions, X states, Z observations, K models, V vectors, N trials.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.errors import JatpoError, unknown
from jatpo.library import Library
from jatpo.storage import pick

SEES = ("state", "observation", "nothing")
KNOWS = ("true model", "library", "nothing")

Memory = Any
"""Whatever an agent remembers: a pytree whose arrays end in the axis N."""


class Knowledge(NamedTuple):
    """All an agent may use; one that knows nothing finds None in `library` and `prior`, nothing solved."""

    actions: Array  # [A] int32, the numbers of the actions
    parameters: Any  # the agent's own, traced
    library: Any = None  # a Library
    prior: Any = None  # [K, N], 0 for models that are no part of a trial's library
    solved: dict[str, Any] = {}  # noqa: RUF012 - never changed; by name, what the agent `needs`


class Decision(NamedTuple):
    """The actions taken [N] and the probabilities they were drawn from [A, N]."""

    actions: Array
    probabilities: Array


def _report_nothing(knowledge: Knowledge, memory: Memory) -> dict[str, Array]:
    del knowledge, memory
    return {}


def _refuse_nothing(library: Library) -> str | None:
    del library
    return None


@dataclass(frozen=True)
class Agent:
    """One way to act. `parameters` are traced: agents that differ only there share a compiled program."""

    name: str
    sees: str
    knows: str
    init: Callable[..., Memory]  # (keys [N], knowledge, seen [N] or None)
    policy: Callable[[Array, Knowledge, Memory], Array]  # probabilities [A, N]
    observe: Callable[..., Memory]  # (knowledge, memory, actions [N], seen [N] or None)
    report: Callable[[Knowledge, Memory], dict[str, Array]] = _report_nothing  # by name, arrays [..., N]
    needs: tuple[str, ...] = ()  # what has to be solved first: "policies", "q"
    parameters: Any = ()
    refuses: Callable[[Library], str | None] = _refuse_nothing  # why it cannot run with this library, or None

    def __post_init__(self) -> None:
        if self.sees not in SEES:
            raise unknown(f"kind of sight (agent '{self.name}', sees=)", self.sees, SEES)
        if self.knows not in KNOWS:
            raise unknown(f"kind of knowledge (agent '{self.name}', knows=)", self.knows, KNOWS)
        if self.knows == "nothing" and self.needs:
            raise JatpoError(f"agent '{self.name}' knows nothing and cannot need {', '.join(self.needs)}")

    @property
    def functions(self) -> Functions:
        """The part that fixes a compiled program."""
        ignorant = self.knows == "nothing"
        return Functions(self.sees, ignorant, self.init, self.policy, self.observe, self.report)

    @property
    def informed(self) -> bool:
        """Whether it knows the true model."""
        return self.knows == "true model"

    def with_parameters(self, **changes: Any) -> Agent:
        """The same agent with some of its parameters changed."""
        known = getattr(self.parameters, "_fields", ())
        for name in changes:
            if name not in known:
                raise unknown(f"parameter of agent '{self.name}'", name, known)
        return dataclasses.replace(self, parameters=self.parameters._replace(**changes))

    def act(self, keys: Array, knowledge: Knowledge, memory: Memory) -> Decision:
        """Draw one action for each trial; keys [N], one for each."""
        plan_keys, choice_keys = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
        probabilities = self.policy(plan_keys, knowledge, memory)
        uniform = jax.vmap(lambda key: jax.random.uniform(key, dtype=probabilities.dtype))(choice_keys)
        return Decision(choose(uniform, probabilities), probabilities)


class Functions(NamedTuple):
    """What fixes an agent's compiled program; hashable, so that it can be a static argument."""

    sees: str
    ignorant: bool
    init: Callable
    policy: Callable
    observe: Callable
    report: Callable


def choose(uniform: Array, probabilities: Array) -> Array:
    """The actions [N] that `uniform` [N] in [0, 1) picks from probabilities [A, N]."""
    return jax.vmap(pick, in_axes=(0, 1))(uniform, probabilities)


def lift(init: Callable, policy: Callable, observe: Callable, report: Callable = _report_nothing) -> tuple:
    """The same four functions for N trials, from functions of one: key [], prior [K], action [], seen []."""

    def for_each(function: Callable, axes: tuple) -> Callable:
        return jax.vmap(function, in_axes=axes, out_axes=-1)

    def axes_of(knowledge: Knowledge) -> Any:
        nothing: Any = None
        return Knowledge(nothing, nothing, nothing, None if knowledge.prior is None else 1, nothing)

    def lifted_init(keys: Array, knowledge: Knowledge, seen: Array | None) -> Memory:
        return for_each(init, (0, axes_of(knowledge), 0))(keys, knowledge, seen)

    def lifted_policy(keys: Array, knowledge: Knowledge, memory: Memory) -> Array:
        return for_each(policy, (0, axes_of(knowledge), -1))(keys, knowledge, memory)

    def lifted_observe(knowledge: Knowledge, memory: Memory, actions: Array, seen: Array | None) -> Memory:
        return for_each(observe, (axes_of(knowledge), -1, 0, 0))(knowledge, memory, actions, seen)

    def lifted_report(knowledge: Knowledge, memory: Memory) -> dict[str, Array]:
        if knowledge.prior is None and not jax.tree.leaves(memory):
            raise JatpoError(
                "an agent that knows nothing and remembers nothing has nothing to report: leave its report out"
            )
        return for_each(report, (axes_of(knowledge), -1))(knowledge, memory)

    silent = report is _report_nothing
    return lifted_init, lifted_policy, lifted_observe, report if silent else lifted_report


def permit(agent: Functions, knowledge: Knowledge, informed: Array, truth: Array) -> Knowledge:
    """The part of `knowledge` that the agent declared.

    An agent that is `informed` [] gets a prior that is certain of its trial's true model, truth [N].
    """
    if agent.ignorant:
        return Knowledge(knowledge.actions, knowledge.parameters)
    prior = knowledge.prior
    assert prior is not None
    certain = jnp.arange(prior.shape[0], dtype=jnp.int32)[:, None] == truth[None, :]
    return knowledge._replace(prior=jnp.where(informed, certain.astype(prior.dtype), prior))


def sight(agent: Functions, states: Array, observations: Array | None) -> Array | None:
    """What the agent declared to see: [N] or None. Before the first action there is no observation."""
    return {"state": states, "observation": observations, "nothing": None}[agent.sees]
