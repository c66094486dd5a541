"""What an agent is: pure methods on pytrees, and a declaration of what it may see and know.

    memory        = agent.init(keys, context, seen)
    probabilities = agent.act(keys, context, memory)                          [A, N]
    memory        = agent.update(keys, context, memory, actions, seen)
    reported      = agent.report(context, memory)                             arrays [..., N] by name

The methods work on N trials at once, the trial being the last axis of every array (a belief is [X, N]): gathers then
move whole rows, which is what makes thousands of trials cheap. All run under jit, vmap and scan.

An agent is a frozen dataclass and a pytree. Its fields are its parameters, and they are traced: agents of one class
share a compiled program, and a sweep over a parameter compiles once. Fields with `static()` fix the program. `name` and
`knows` are for the host and no part of the tree, as the names of a POMDP: ATPO and the informed agent share a program.

The rollout provides no more than is declared. `sees` says what `seen` [N] is: the state, the observation or None.
`knows` says what the `Context` holds: the true model (a prior that is certain of it), the library (with the user's
prior), or nothing but the actions. `needs` names what has to be solved first.

Shapes: A actions, X states, Z observations, K models, V vectors, N trials.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, NamedTuple, Protocol, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
from jax import Array

from jatpo.errors import JatpoError, unknown
from jatpo.library import Library
from jatpo.pytree import pytree
from jatpo.storage import pick

SEES = ("state", "observation", "nothing")
KNOWS = ("true model", "library", "nothing")
ON_HOST = ("name", "knows")  # fields that are no part of the tree
METHODS = ("init", "act", "update")

Memory = Any
"""Whatever an agent remembers: a pytree whose arrays end in the axis N."""

Parts = Mapping[str, Any]
"""What was solved for a library, by the names that agents need."""

Class = TypeVar("Class", bound=type)


class Context(NamedTuple):
    """All an agent may use; one that knows nothing finds None in `library` and `prior`, nothing solved."""

    actions: Array  # [A] int32, the numbers of the actions
    library: Any = None  # a Library
    prior: Any = None  # [K, N], 0 for models that are no part of a trial's library
    solved: Parts = {}  # noqa: RUF012 - never changed; by name, what the agent `needs`


class Agent(Protocol):
    """One way to act. Make a class of it with `agent_class`, or `register` it."""

    @property
    def name(self) -> str: ...
    @property
    def sees(self) -> str: ...
    @property
    def knows(self) -> str: ...
    @property
    def needs(self) -> tuple[str, ...]: ...

    def init(self, keys: Array, context: Context, seen: Any) -> Memory:
        """The memory before the first action; keys [N], seen [N] or None."""

    def act(self, keys: Array, context: Context, memory: Memory) -> Array:
        """The probabilities of the actions [A, N]."""
        ...

    def update(self, keys: Array, context: Context, memory: Memory, actions: Array, seen: Any) -> Memory:
        """The memory after actions [N] and what was seen then [N]."""

    def report(self, context: Context, memory: Memory) -> dict[str, Array]:
        """What can be recorded at every step, by name: arrays [..., N]."""
        ...

    def refuses(self, library: Library) -> str | None:
        """Why the agent cannot run with this library, or None."""


class Defaults:
    """What an agent need not say of itself."""

    needs: tuple[str, ...] = ()
    plays: tuple[str, ...] = ("tables",)  # of "tables" and "simulators", the libraries that it can play in

    def report(self, context: Context, memory: Memory) -> dict[str, Array]:
        """Nothing."""
        del context, memory
        return {}

    def refuses(self, library: Library) -> str | None:
        """It runs with any library."""
        del library
        return None


def static(*, default: Any) -> Any:
    """A field that fixes the compiled program, with its default."""
    return dataclasses.field(default=default, metadata={"static": True})


def _fields(cls: Any) -> tuple[dataclasses.Field[Any], ...]:
    """The fields of a dataclass; none of another class."""
    return dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field, static))
def agent_class(cls: Class) -> Class:
    """Make a frozen dataclass and a pytree of a class with the methods of an agent."""
    for name in ("needs", "plays", "report", "refuses"):
        if not hasattr(cls, name):
            setattr(cls, name, getattr(Defaults, name))
    for field in _fields(cls):
        if field.name in vars(cls) and field.name not in vars(cls).get(
            "__annotations__", {}
        ):  # a new default
            cls.__annotations__ = {**vars(cls).get("__annotations__", {}), field.name: Any}
    if "__dataclass_fields__" not in vars(cls):
        dataclasses.dataclass(frozen=True, eq=False)(cls)
    return pytree(cls, dropped=ON_HOST)


def for_each_trial(cls: Class) -> Class:
    """A class with the methods of an agent for N trials, from one whose methods are written for one.

    Those have key [], context.prior [K], action [], seen []; `act` gives [A].
    """
    own = {name: getattr(cls, name) for name in (*METHODS, "report") if hasattr(cls, name)}

    def lifted(method: Callable, places: Callable[[Any], tuple]) -> Callable:
        @wraps(method)
        def for_all(self: Any, *arguments: Any) -> Any:
            context = next(part for part in arguments if isinstance(part, Context))
            if context.prior is None and not jax.tree.leaves(arguments[1:]):
                raise JatpoError(
                    f"agent '{self.name}' knows nothing and remembers nothing: leave its report out"
                )
            return jax.vmap(lambda *parts: method(self, *parts), in_axes=places(_axes(context)), out_axes=-1)(
                *arguments
            )

        return for_all

    places: dict[str, Callable[[Any], tuple]] = {
        "init": lambda context: (0, context, 0),
        "act": lambda context: (0, context, -1),
        "update": lambda context: (0, context, -1, 0, 0),
        "report": lambda context: (context, -1),
    }
    for name, method in own.items():
        setattr(cls, name, lifted(method, places[name]))
    return cls


def _axes(context: Context) -> Any:
    nothing: Any = None
    return Context(nothing, nothing, None if context.prior is None else 1, nothing)


def check_declaration(agent: Agent) -> None:
    """Refuse an agent that lacks a method or declares what is unknown."""
    kind = type(agent)
    name = getattr(agent, "name", None) or kind.__name__
    missing = [part for part in METHODS if not callable(getattr(kind, part, None))]
    if missing:
        raise JatpoError(
            f"agent '{name}' has no method {' and no '.join(missing)}: write it in {kind.__name__}"
        )
    for attribute in ("name", "sees", "knows"):
        if not getattr(agent, attribute, None):
            raise JatpoError(f"agent '{name}' has no {attribute}: set it in {kind.__name__}")
    if agent.sees not in SEES:
        raise unknown(f"kind of sight (agent '{name}', sees=)", agent.sees, SEES)
    if agent.knows not in KNOWS:
        raise unknown(f"kind of knowledge (agent '{name}', knows=)", agent.knows, KNOWS)
    if agent.knows == "nothing" and agent.needs:
        raise JatpoError(f"agent '{name}' knows nothing and cannot need {', '.join(agent.needs)}")


def refusal(agent: Agent, library: Any) -> str | None:
    """Why an agent cannot run with a library of tables or of simulators, or None."""
    kind = "simulators" if library.simulated else "tables"
    plays: tuple[str, ...] = getattr(agent, "plays", Defaults.plays)
    if kind not in plays:
        return f"it plays in libraries of {' and '.join(plays)}, and {library.name} is made of {kind}"
    return agent.refuses(library)


def informed(agent: Agent) -> bool:
    """Whether an agent knows the true model."""
    return agent.knows == "true model"


def choose(uniform: Array, probabilities: Array) -> Array:
    """The actions [N] that `uniform` [N] in [0, 1) picks from probabilities [A, N]."""
    return jax.vmap(pick, in_axes=(0, 1))(uniform, probabilities)


def permit(agent: Agent, context: Context, informed: Array, truth: Array) -> Context:
    """The part of `context` that the agent declared.

    One that is `informed` [] gets a prior that is certain of its trial's true model, truth [N].
    """
    if agent.knows == "nothing":
        return Context(context.actions)
    prior = context.prior
    assert prior is not None
    certain = jnp.arange(prior.shape[0], dtype=jnp.int32)[:, None] == truth[None, :]
    return context._replace(prior=jnp.where(informed, certain.astype(prior.dtype), prior))


def sight(agent: Agent, states: Array, observations: Array | None) -> Array | None:
    """What the agent declared to see: [N] or None. Before the first action there is no observation."""
    return {"state": states, "observation": observations, "nothing": None}[agent.sees]
