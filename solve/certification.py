"""What certifies a solution: the evidence that its solver kept, or evidence made of its vectors and a short search."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from jatpo.certify import Certificate, certify, restricted
from jatpo.certify_exact import certify_exact
from jatpo.checked_model import reachable_states
from jatpo.evidence import Evidence, trimmed
from jatpo.solve.controller import Controller, follow_vectors
from jatpo.solve.gap_search import Search, SearchState, advance

if TYPE_CHECKING:
    from jatpo.model import POMDP
    from jatpo.solve.policy import Policy

SECONDS = 10.0  # of the search that bounds from above what came without evidence


def build_evidence(model: POMDP, policy: Policy, seconds: float = SECONDS) -> Evidence:
    """Evidence for alpha vectors of any origin: their controller below, a graph search above.

    The search takes `seconds` of processor time at most. It has a controller of its own, and the better one at the
    initial belief counts.
    """
    sparse = model.exact()
    states = reachable_states(sparse)
    sparse = restricted(sparse, states)
    ends = time.thread_time() + seconds
    search = SearchState(sparse, model.num_observations)
    while time.thread_time() < ends and not search.closed:
        advance(search, Search(gap=0.0), seed=0)
    vectors = np.asarray(policy.vectors, np.float64)[:, states]
    followed = follow_vectors(sparse, model.num_observations, vectors, np.asarray(policy.actions))
    return trimmed(_joined(search.evidence(), followed))._replace(states=states)


def _joined(evidence: Evidence, more: Controller) -> Evidence:
    """Evidence with the vectors of another controller besides its own."""
    count = len(evidence.values)
    return evidence._replace(
        values=np.concatenate([evidence.values, more.values]),
        action=np.concatenate([evidence.action, more.action]),
        successor=np.concatenate([evidence.successor, more.successor + count]),
    )


def check_evidence(model: POMDP, evidence: Evidence, exact: bool = False) -> Certificate:
    """The interval that `evidence` proves for `model` as it is stored; refuses evidence that is none."""
    check = certify_exact if exact else certify
    return check(model.exact(), model.num_observations, evidence)
