"""The agents that commands know by name. A user's own agent joins them with a decorator:

    @register("always-first", sees="nothing", knows="nothing")
    class AlwaysFirst:
        def init(key, knowledge, seen): return ()
        def policy(key, knowledge, memory): return jnp.eye(knowledge.actions.shape[0])[0]
        def observe(knowledge, memory, action, seen): return memory

The class is a bag of functions for one trial (key [], prior [K], seen []; `policy` gives [A]);
`columns=True` says that they are written for N trials at once, with the trial on the last axis. Files named
in the environment variable JATPO_AGENTS (separated like PATH) are loaded before a name is looked up.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from jatpo.errors import JatpoError, unknown
from jatpo.evaluate import bayes, lookahead, mixture, rules, soft, states
from jatpo.evaluate.agent import Agent, lift

VARIABLE = "JATPO_AGENTS"

_agents: dict[str, Agent] = {}
_loaded: set[str] = set()


def add(agent: Agent) -> Agent:
    """Enter an agent under its name; one that is there already is replaced."""
    _check_name(agent.name)
    _agents[agent.name] = agent
    return agent


def register(
    name: str,
    *,
    sees: str,
    knows: str,
    needs: Iterable[str] = (),
    parameters: Any = (),
    columns: bool = False,
    refuses: Callable | None = None,
) -> Callable[[type], Agent]:
    """Decorator that makes an agent of a class of functions: init, policy, observe, perhaps report."""

    def enter(functions: type) -> Agent:
        missing = [
            part for part in ("init", "policy", "observe") if not callable(getattr(functions, part, None))
        ]
        if missing:
            raise JatpoError(
                f"agent '{name}' has no function {' and no '.join(missing)}: write it in {functions.__name__}"
            )
        parts = [functions.init, functions.policy, functions.observe]
        parts += [functions.report] if hasattr(functions, "report") else []
        parts = parts if columns else lift(*parts)
        more = {} if refuses is None else {"refuses": refuses}
        report = {"report": parts[3]} if len(parts) > 3 else {}
        return add(
            Agent(name, sees, knows, *parts[:3], **report, needs=tuple(needs), parameters=parameters, **more)
        )

    return enter


def names() -> tuple[str, ...]:
    """The names of all agents, the paper's six first."""
    _load_from_environment()
    return tuple(_agents)


def get(name: str) -> Agent:
    """The agent called `name`; hyphens and underscores are alike."""
    _load_from_environment()
    by_spelling = {_spelling(known): agent for known, agent in _agents.items()}
    if _spelling(name) not in by_spelling:
        raise unknown("agent", name, _agents)
    return by_spelling[_spelling(name)]


def remove(name: str) -> None:
    """Forget an agent."""
    del _agents[get(name).name]


def load(source: str | os.PathLike[str]) -> tuple[str, ...]:
    """Import a file or module that registers agents; the names it added or replaced."""
    before = dict(_agents)
    text = os.fspath(source)
    try:
        if text.endswith(".py") or os.sep in text:
            _import_file(Path(text))
        else:
            importlib.import_module(text)
    except JatpoError:
        raise
    except Exception as error:
        raise JatpoError(f"agent file {text} fails with {type(error).__name__}: {error}") from error
    return tuple(name for name, agent in _agents.items() if before.get(name) is not agent)


def _import_file(path: Path) -> None:
    if not path.is_file():
        raise JatpoError(f"there is no agent file {path}: check the path")
    module_name = f"jatpo_agents_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None  # a .py file always has a loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    spec.loader.exec_module(module)


def _load_from_environment() -> None:
    for source in os.environ.get(VARIABLE, "").split(os.pathsep):
        if source and source not in _loaded:
            _loaded.add(source)
            load(source)


def _spelling(name: str) -> str:
    return name.replace("-", "_").lower()


def _check_name(name: str) -> None:
    if not name or not all(letter.isalnum() or letter in "-_" for letter in name):
        raise JatpoError(f"an agent cannot be called '{name}': use letters, digits, hyphens and underscores")


for _agent in (
    states.VALUE_ITERATION,
    mixture.PERSEUS,
    mixture.ATPO,
    mixture.RANDOM_PICKER,
    states.BOPA,
    states.RANDOM,
    rules.MAP,
    rules.VOTE,
    rules.COMMIT,
    lookahead.Q,
    lookahead.LOOKAHEAD,
    bayes.BAYES,
    soft.SOFT_ATPO,
):
    add(_agent)
