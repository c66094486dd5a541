"""SARSOP or HSVI of scikit-decide on one file: `python -m jatpo.bench.scikit_decide SARSOP FILE SECONDS`.

Prints the bounds at the initial belief over processor time, counted from when the file has been read:

    bounds SECONDS LOWER UPPER

It is a program of its own because what is compiled in that package can end its process.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from typing import Any

import numpy as np

from jatpo.files import load
from jatpo.model import Sparse

KINDS = (
    *("SingleAgent", "Sequential", "EnumerableTransitions", "Actions", "Markovian"),
    *("PartiallyObservable", "Rewards", "UncertainInitialized"),
)
INTERVAL = 0.02  # seconds of processor time between two lines
NEVER = 1e6  # seconds; the time limit of the package is in wall time


def main(algorithm: str, file: str, seconds: float) -> None:
    """Solve the model of `file` and print its bounds."""
    numbers = load(file).members[0].exact()
    solver_class = getattr(import_module(f"skdecide.hub.solver.{algorithm.lower()}"), algorithm)
    domain = domain_of(numbers)
    start = domain().get_initial_state_distribution()
    began, shown = time.process_time(), [-INTERVAL]

    def show(solver: Any) -> bool:
        spent = time.process_time() - began
        if spent >= min(shown[0] + INTERVAL, seconds):
            shown[0] = spent
            print("bounds", repr(spent), *map(repr, bounds_of(solver, start)), flush=True)
        return spent >= seconds

    options = {"epsilon": 1e-9, "discount": numbers.discount, "time_budget": int(1000 * NEVER)}
    with solver_class(domain_factory=domain, callback=show, **options) as solver:
        solver.solve()
        shown[0] = -INTERVAL
        show(solver)


def bounds_of(solver: Any, start: Any) -> tuple[float, float]:
    """The lower and the upper bound; HSVI has only its vectors and the gap."""
    if hasattr(solver, "get_lower_bound"):
        return float(solver.get_lower_bound()), float(solver.get_upper_bound())
    lower = float(solver.get_utility_from_belief(start).reward)
    return lower, lower + float(solver.get_gap())


def domain_of(numbers: Sparse) -> Any:
    """A class of domains of scikit-decide that all are this model."""
    core, kinds = import_module("skdecide.core"), import_module("skdecide.builders.domain")
    domains = import_module("skdecide.domains")
    following, seen = (_rows(core, part) for part in (numbers.transition, numbers.observation))
    actions = _range_of(core, numbers.reward.shape[1])
    observations = _range_of(core, int(numbers.observation[2].max()) + 1)
    initial = core.DiscreteDistribution(
        [(state, float(share)) for state, share in enumerate(numbers.initial) if share > 0]
    )

    class Model(domains.Domain, *(getattr(kinds, kind) for kind in KINDS)):
        T_state = T_observation = T_event = int
        T_value = float
        T_info = type(None)

        def _get_initial_state_distribution_(self) -> Any:
            return initial

        def _get_next_state_distribution(self, memory: int, action: int) -> Any:
            return following[memory, action]

        def _get_transition_value(self, memory: int, action: int, next_state: int | None = None) -> Any:
            del next_state
            return core.Value(reward=float(numbers.reward[memory, action]))

        def _is_transition_value_dependent_on_next_state_(self) -> bool:
            return False

        def _is_terminal(self, state: int) -> bool:
            del state
            return False

        def _get_observation_distribution(self, state: int, action: int | None = None) -> Any:
            return seen[state, 0 if action is None else action]

        def _get_action_space_(self) -> Any:
            return actions

        def _get_applicable_actions_from(self, memory: int) -> Any:
            del memory
            return actions

        def _get_observation_space_(self) -> Any:
            return observations

    return Model


def _rows(core: Any, coordinates: tuple[np.ndarray, ...]) -> dict[tuple[int, int], Any]:
    """The distribution for each (state, action) from coordinates (action, state, value, probability)."""
    found: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for action, state, value, share in zip(*(part.tolist() for part in coordinates), strict=True):
        found.setdefault((state, action), []).append((value, share))
    return {key: core.DiscreteDistribution(row) for key, row in found.items()}


def _range_of(core: Any, count: int) -> Any:
    """The numbers below `count` as a space."""

    class Numbers(core.EnumerableSpace, core.SamplableSpace):
        def __getitem__(self, index: Any) -> Any:
            return range(count)[index]

        def __len__(self) -> int:
            return count

        def get_elements(self) -> list[int]:
            return list(range(count))

        def contains(self, x: Any) -> bool:
            return x in range(count)

        def sample(self) -> int:
            return 0

    return Numbers()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
