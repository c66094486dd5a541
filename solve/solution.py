"""What a solver returns: a policy, its bounds at the initial belief, and how it was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from jax import Array

from jatpo.model import POMDP
from jatpo.solve import policy as alpha
from jatpo.solve.base import Settings, Status, Stop
from jatpo.solve.policy import Policy


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

    @property
    def gap(self) -> float:
        return self.upper - self.lower

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

    def __repr__(self) -> str:
        bounds = f"{self.lower:.4g} ≤ v* ≤ {self.upper:.4g}"
        effort = f"{self.num_vectors} vectors, {self.stages} stages, {self.seconds:.1f} s"
        return f"Solution({bounds}, {effort}, {self.status.value})"


def notes(solutions: Sequence[Solution], labels: Sequence[str]) -> list[str]:
    """A sentence for each solution that is not complete: what happened, the numbers, the remedy."""
    return [
        f"{label}: {solution.solver} stopped with its {solution.status.value} after {solution.stages} stages "
        f"({solution.num_vectors} vectors, {solution.lower:.4g} ≤ v* ≤ {solution.upper:.4g}): "
        f"{solution.status.remedy}"
        for solution, label in zip(solutions, labels, strict=True)
        if not solution.status.complete
    ]
