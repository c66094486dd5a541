"""What a trial of a simulator library is drawn from, as `Scenario` is for tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo import validate
from jatpo.errors import JatpoError
from jatpo.evaluate.scenario import Scenario
from jatpo.simulators import SimulatorLibrary

ARRAYS = ("library", "world", "weights", "prior", "size", "leave_out")


@jax.tree_util.register_pytree_with_keys_class
class SimulatorScenario:
    """A library with true models, their weights, a prior, and how a trial's library is drawn. A pytree."""

    library: SimulatorLibrary
    world: SimulatorLibrary  # the true models
    weights: Array  # [K]
    prior: Array  # [K]
    size: Array  # [] int32
    leave_out: Array  # [] bool

    simulated = True

    def __init__(
        self,
        library: SimulatorLibrary,
        truths: SimulatorLibrary | None = None,
        weights: Sequence[float] | np.ndarray | None = None,
        prior: Sequence[float] | np.ndarray | None = None,
        size: int | None = None,
        leave_out: bool = False,
    ) -> None:
        """By default the true models are the library's, drawn uniformly, and the prior is the library's."""
        count, dtype = library.num_models, library.prior.dtype
        truths, size = truths or library, count if size is None else size
        if not 1 <= size <= count:
            raise JatpoError(
                f"a trial's library cannot have {size} of {count} models: choose from 1 to {count}"
            )
        if leave_out and size < 2:
            raise JatpoError(f"leaving out the true model needs a library of at least 2 models, got {size}")
        if truths.num_models != count or truths.num_actions != library.num_actions:
            raise JatpoError(
                f"there are {truths.num_models} true models with {truths.num_actions} actions and {count} models "
                f"with {library.num_actions} in the library: they must agree"
            )
        even = np.full(count, 1 / count)
        chosen = validate.distribution("weights", even if weights is None else np.asarray(weights), count)
        given = library.prior if prior is None else validate.distribution("prior", np.asarray(prior), count)
        self.library, self.world = library, truths
        self.weights, self.prior = jnp.asarray(chosen, dtype), jnp.asarray(given, dtype)
        self.size, self.leave_out = jnp.int32(size), jnp.asarray(leave_out)

    def __repr__(self) -> str:
        return f"SimulatorScenario({self.library.name}: {self.size} of {self.library.num_models} models)"

    def tree_flatten_with_keys(self) -> tuple:
        """The arrays; nothing is static."""
        return [(jax.tree_util.GetAttrKey(name), getattr(self, name)) for name in ARRAYS], None

    @classmethod
    def tree_unflatten(cls, aux: None, children: Sequence) -> SimulatorScenario:
        """A scenario of arrays or whatever stands for them."""
        made = object.__new__(cls)
        vars(made).update(zip(ARRAYS, children, strict=True))
        return made


def scenario_of(library: Any, **options: Any) -> Any:
    """The scenario of a library of tables or of simulators, with the options that both have."""
    return (SimulatorScenario if library.simulated else Scenario)(library, **options)
