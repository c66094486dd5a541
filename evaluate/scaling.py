"""Library scaling: how ATPO fares when the library grows from 2 to 32 models (the paper's figure).

Each trial draws its true model and the rest of its library from the whole pool. Libraries are nested: with
the same seed, the library of size n + 1 is that of size n and one more model, and the true model is the
same for all sizes. So agents that use no library run once, and differences between sizes are paired.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jatpo.errors import JatpoError
from jatpo.evaluate import published, statistics
from jatpo.evaluate.agent import Agent
from jatpo.evaluate.comparison import BEST, WORST
from jatpo.evaluate.prepare import Prepared, Session

BASELINES = (BEST, "perseus", WORST)


def scaling(
    prepared: Prepared, agents: Sequence[Agent], sizes: Sequence[int], trials: int, session: Session
) -> list[dict[str, Any]]:
    """One row per size and agent that knows the library, and one per other agent (size None)."""
    count = len(prepared.models)
    for size in sizes:
        if not 2 <= size <= count:
            raise JatpoError(
                f"a library of {size} models cannot be drawn from {count}: choose from 2 to {count}"
            )
    session.open_part("baselines", prepared)
    alone = [agent for agent in agents if agent.knows != "library"]
    varied = [agent for agent in agents if agent.knows == "library"]
    session.expect([*alone, *varied * len(sizes)], prepared.task.library)
    found: dict[tuple[int | None, str], np.ndarray] = {}
    for agent in alone:
        run = session.run("baselines", agent, prepared.task, prepared.horizon, trials)
        found[None, agent.name] = run.returns
    for size in sizes:
        part = f"size-{size:02d}"
        session.open_part(part, prepared, size=size)
        task = prepared.task._replace(size=jnp.int32(size))
        for agent in varied:
            found[size, agent.name] = session.run(part, agent, task, prepared.horizon, trials).returns
    return [_row(prepared, size, agent, found) for size, agent in found]


def _row(prepared: Prepared, size: int | None, agent: str, found: dict) -> dict[str, Any]:
    row: dict[str, Any] = {"domain": prepared.name, "rules": prepared.rules, "size": size, "agent": agent}
    row |= statistics.estimate(found[size, agent])._asdict()
    worst, best = found.get((None, WORST)), found.get((None, BEST))
    if worst is not None and best is not None:
        relative = statistics.relative(found[size, agent], worst, best)
        row |= {"relative": relative.mean, "relative_low": relative.low, "relative_high": relative.high}
    row["published_relative"] = None
    if prepared.name == "gridworld" and agent == "atpo" and size is not None:
        row["published_relative"] = published.scaling(size)
    return row
