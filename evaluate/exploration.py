"""What the share of random walkers in the anytime solver does to the agents that use its policies.

The model's own policy needs few of them; ATPO, which follows a mixture in a world that may be another model's, meets
beliefs that only they visit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jatpo.evaluate import statistics
from jatpo.evaluate.agent import Agent
from jatpo.evaluate.comparison import play
from jatpo.evaluate.prepare import Prepared, Session


def exploration_rows(
    prepared: Prepared, share: float, agents: Sequence[Agent], trials: int, session: Session
) -> list[dict[str, Any]]:
    """One row per agent, with policies that were solved with `share` of the walkers at random."""
    results = play(prepared, agents, trials, session)
    rows = []
    for name, found in results.trials.items():
        if found is not None:
            row = {"domain": prepared.name, "rules": prepared.rules, "off_policy": share, "agent": name}
            rows.append(row | statistics.estimate(found.returns)._asdict())
    return rows
