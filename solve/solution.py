"""What a solver returns: a policy, its bounds at the initial belief, and how it was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jax import Array

from jatpo.certify import Certificate
from jatpo.errors import JatpoError
from jatpo.events import OnEvent, ignore
from jatpo.evidence import Evidence
from jatpo.model import POMDP
from jatpo.solve import policy as alpha
from jatpo.solve.certification import SECONDS, build_evidence, check_evidence
from jatpo.solve.evidence_store import load_evidence, save_evidence
from jatpo.solve.policy import Policy
from jatpo.solve.stopping import Settings, Status, Stop


@dataclass(frozen=True)
class Solution:
    """Alpha vectors with lower ≤ optimum ≤ upper at the initial belief.

    A solver gives the policy, the bounds and `mean_value`; the driver fills in the rest.
    """

    policy: Policy
    lower: float
    upper: float
    mean_value: float | None = None  # over the belief points of a solver that has such
    stages: int = 0
    backups: int = 0
    seconds: float = 0.0
    status: Status = Status.CONVERGED
    seed: int = 0
    solver: str = ""
    settings: Settings = field(default_factory=dict)
    stop: Stop = field(default_factory=Stop)
    model_hash: str = ""
    key: str = ""  # under which it is kept on disk
    evidence: Evidence | None = field(default=None, repr=False, compare=False)  # on disk if there is a cache
    worker: str = field(default="", repr=False, compare=False)  # of an engine that has just computed it

    @property
    def gap(self) -> float:
        return self.upper - self.lower

    @property
    def level(self) -> str:
        """How the bounds are known: as the solver reports them, before `certify`."""
        return "float32"

    @property
    def num_vectors(self) -> int:
        return self.policy.vectors.shape[0]

    def value(self, belief: Array) -> Array:
        """A lower bound on the value of `belief` [X]: []."""
        return alpha.value(self.policy, belief)

    def q(self, model: POMDP, belief: Array) -> Array:
        """q(b, a) by one step of look-ahead on the vectors [A]."""
        return alpha.q(model, self.policy, belief)

    def action_probabilities(self, belief: Array, num_actions: int) -> Array:
        """pi(a | b) [A], ties uniform."""
        return alpha.action_probabilities(self.policy, belief, num_actions)

    def certify(
        self,
        model: POMDP,
        *,
        cache: str | Path | None = None,
        exact: bool = False,
        seconds: float = SECONDS,
        on_event: OnEvent = ignore,
    ) -> Certificate:
        """The interval for `model` that holds whatever the solver did, by an independent check of its evidence.

        Evidence that the solver did not keep is built from the vectors and a search of `seconds`, and kept in `cache`.
        """
        if self.model_hash and self.model_hash != model.content_hash():
            raise JatpoError("the solution is one of another model: give the model that was solved")
        evidence = self.evidence
        if evidence is None and cache is not None and self.key:
            evidence = load_evidence(cache, self.key, on_event)
        if evidence is None:
            evidence = build_evidence(model, self.policy, seconds)
            if cache is not None and self.key:
                save_evidence(cache, self.key, evidence, on_event)
        return check_evidence(model, evidence, exact)

    def __repr__(self) -> str:
        bounds = f"{self.lower:.4g} ≤ v* ≤ {self.upper:.4g}"
        effort = f"{self.num_vectors} vectors, {self.stages} stages, {self.seconds:.1f} s"
        return f"Solution({bounds}, {effort}, {self.status.value})"


def notes(solutions: Sequence[Solution], labels: Sequence[str]) -> list[str]:
    """A sentence for each solution that is not complete: what happened, the numbers, the remedy."""
    return [
        f"{label}: {solution.solver} stopped, {solution.status.value}, after {solution.stages} stages "
        f"({solution.num_vectors} vectors, {solution.lower:.4g} ≤ v* ≤ {solution.upper:.4g}): "
        f"{solution.status.remedy}"
        for solution, label in zip(solutions, labels, strict=True)
        if not solution.status.complete
    ]
