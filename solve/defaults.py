"""How a library is solved unless the user says otherwise: the one place that decides it, for all commands.

* A library with published settings (a domain of the paper, a TOML library with `beliefs` or `tolerance`): Perseus with
  these settings, and as many stages as the horizon.
* Any other, and any with `--seconds`, for 10 seconds (or as given) or until the gap is 0.01: graph search for a single
  model, anytime for several, whose policies are needed at beliefs where none of them leads.
* Models of more than 20,000 states: sparse, for 60 seconds (or as given) or until the gap is 0.01.
* The joint problem: anytime, for 12 rounds (or seconds as given) or until the gap is 0.01.

`--stages` takes the place of the default time limit. Since all commands ask here, what one has solved the others find.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import NamedTuple

from jatpo.errors import unknown
from jatpo.library import Library, Published
from jatpo.solve.base import Solver
from jatpo.solve.solvers import SOLVERS
from jatpo.solve.stopping import GAP, LIMITS, SECONDS, Request, Settings, Stop, stop_of
from jatpo.user_cache import user_cache

LARGE_STATES, LARGE_SECONDS = 20_000, 60.0  # of a model that the other solvers would not hold, and its time
OFF_POLICY_AMONG_MODELS = 0.5
"""Share of walkers at random where an agent follows the policies of several models: it visits beliefs that a model's
own policy never leads to, and a policy that was not solved there may repeat a useless action forever (`jatpo experiment
off-policy`). In the joint problem a smaller share gives a slightly better bound at the start, and more trials that get
stuck at a belief for which no good vector was kept."""
JOINT_STAGES = 12  # the result depends on the seed alone, not on the machine


class Choice(NamedTuple):
    """A solver and when it stops."""

    solver: Solver
    stop: Stop


def default_directory() -> Path:
    """Where commands keep solutions: $JATPO_CACHE, or jatpo/solutions in the user's cache directory."""
    return Path(os.environ.get("JATPO_CACHE") or user_cache() / "solutions")


def choose(
    request: Request,
    *,
    num_models: int,
    horizon: int,
    published: Published | None = None,
    joint: bool = False,
    num_states: int = 0,
) -> Choice:
    """Solver and stop for the models of a library, or for all of them as one `joint` problem."""
    searching = "anytime" if joint or num_models > 1 else "graph"
    searching = "sparse" if num_states > LARGE_STATES and not joint else searching
    usual = "perseus" if published and request.seconds is None and not joint else searching
    name = (request.solver or usual).replace("_", "-")
    if joint and name == "anytime" and request.seconds is None and request.stages is None:
        request = dataclasses.replace(request, stages=JOINT_STAGES)
    own = published or Published()
    fields: Settings = {"beliefs": own.beliefs, "tolerance": own.tolerance, "steps": horizon}
    if name != "perseus":
        several = joint or num_models > 1
        fields = {"off_policy": OFF_POLICY_AMONG_MODELS} if name == "anytime" and several else {}
    return _choice(name, fields, request, horizon)


def choose_for(library: Library, request: Request, *, joint: bool = False) -> Choice:
    """Solver and stop for `library`."""
    return choose(
        request,
        num_models=library.num_models,
        horizon=library.horizon,
        published=library.published,
        joint=joint,
        num_states=library.num_states,
    )


def _choice(name: str, fields: Settings, request: Request, horizon: int) -> Choice:
    solver_type = SOLVERS.get(name)
    known = {each.name for each in dataclasses.fields(solver_type)}  # pyright: ignore[reportArgumentType]
    for given in request.settings:
        if given not in known:
            raise unknown(f"option of solver '{name}'", given, sorted(known))
    solver = solver_type(**{**fields, **request.settings})
    stop = usual_stop(solver, request, horizon)
    solver.check(stop)
    return Choice(solver, stop)


def usual_stop(solver: Solver, request: Request, horizon: int) -> Stop:
    """When a solver stops, by the limits it honours; a number of stages follows the horizon."""
    if set(LIMITS) <= set(solver.limits):
        return stop_of(request, LARGE_SECONDS if solver.name == "sparse" else SECONDS)
    stop = Stop()
    if "seconds" in solver.limits:
        stop = Stop(0 if request.stages is not None else SECONDS, GAP if "gap" in solver.limits else 0)
    elif "stages" in solver.limits:
        stop = Stop(stages=horizon)
    asked = {name: getattr(request, name) for name in LIMITS}
    return dataclasses.replace(stop, **{name: value for name, value in asked.items() if value is not None})
