"""What a solver returns: a policy, its bounds at the start, and how it was found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jax import Array

from jatpo.model import POMDP
from jatpo.solve import policy as alpha
from jatpo.solve.policy import Policy


@dataclass(frozen=True)
class Solution:
    """Alpha vectors with lower ≤ optimum ≤ upper at the initial belief."""

    policy: Policy
    lower: float
    upper: float
    mean_value: float  # over the belief points
    stages: int
    backups: int
    seconds: float
    stopped: str  # why
    seed: int
    settings: dict[str, Any]
    model_hash: str

    @property
    def gap(self) -> float:
        return self.upper - self.lower

    @property
    def num_vectors(self) -> int:
        return self.policy.vectors.shape[0]

    def value(self, belief: Array) -> Array:
        """The value of `belief` [X] that the policy attains at least: []."""
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
        return f"Solution({bounds}, {effort}, {self.stopped})"
