"""The noise level ε that a whole library shares, learned from histories of any of its models.

A sensor or a move that fails with probability ε, d of them at once, makes every entry of a kernel a polynomial

    P_ε = sum_j ε^j (1 - ε)^(d - j) K_j,   K_j ≥ 0:   j of d trials failed.

A domain's K_j are found by building it at some levels and solving for them; that the polynomial is right is
checked at levels in between. The teammate's policy is that of the domain's own level. A model from a file has no noise
of its own to vary: there ε is the share of observations that are replaced by a uniformly random one, the case d = 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jatpo import domains
from jatpo.domains.description import Description
from jatpo.domains.structure import World
from jatpo.errors import JatpoError
from jatpo.learn import support
from jatpo.learn.histories import Histories
from jatpo.learn.likelihood import log_evidence
from jatpo.library import Library
from jatpo.model import POMDP
from jatpo.pytree import pytree
from jatpo.validate import Coordinates

DEGREES = (4, 10)  # the most, tried in turn
BETWEEN = (0.137, 0.731)  # levels at which a polynomial is checked
CLOSE = 1e-7  # how well it has to fit, there and everywhere


@pytree
@dataclass(frozen=True, eq=False)
class Noise:
    """K models that depend on one noise level. `base` has them at a level where every possible entry is positive."""

    base: Library
    transition: Array  # [D + 1, K, A, X, S], the K_j of P
    observation: Array  # [E + 1, K, C, L], the K_j of O
    level: Array  # [], the start

    @classmethod
    def of_domain(
        cls,
        name: str,
        models: Sequence[int] | None = None,
        rules: str = "as_run",
        level: float | None = None,
        prior: Sequence[float] | np.ndarray | None = None,
        **overrides: Any,
    ) -> Noise:
        """The models of a domain (default: all of its library) as functions of its parameter `noise`."""
        domain = domains.get(name)
        if "noise" not in domain.parameters:
            raise JatpoError(f"domain '{name}' has no parameter 'noise' to learn: choose another domain")
        own = overrides.pop("noise", None)
        usual = domain.values(rules)["noise"] if own is None else own
        start = usual if level is None else level
        chosen = range(domain.models) if models is None else models
        parts = [
            _polynomials(_builder(name, model, rules, usual, overrides), f"{name}:{model}")
            for model in chosen
        ]
        return cls._stacked(parts, prior, start)

    @classmethod
    def of_models(
        cls,
        models: Sequence[POMDP],
        level: float = 0.05,
        prior: Sequence[float] | np.ndarray | None = None,
    ) -> Noise:
        """`models` with a sensor that returns a uniformly random observation with probability ε."""
        parts = []
        for model in models:
            sparse, sizes = model.to_sparse(), (model.num_actions, model.num_states)
            anything = _uniform(*sizes, model.num_observations)
            seen = support.align_observations([sparse.observation, anything], *sizes, model.num_observations)
            moved = support.align_transitions([sparse.transition], *sizes)
            parts.append((model, moved, seen))
        return cls._stacked(parts, prior, level)

    @classmethod
    def _stacked(cls, parts: Sequence[tuple], prior: Any, level: float) -> Noise:
        """From each model with its K_j of P and of O."""
        base = Library.from_models(
            [
                model.replace(transition=moved.storage, observation=seen.storage)
                for model, moved, seen in parts
            ],
            prior,
        )
        start = jnp.asarray(min(max(level, 1e-3), 1 - 1e-3), base.prior.dtype)
        return cls(base, _stack([part[1] for part in parts]), _stack([part[2] for part in parts]), start)

    def start(self) -> Array:
        """The logit of the level []."""
        return jnp.log(self.level) - jnp.log1p(-self.level)

    def value(self, params: Array) -> Array:
        """The level []."""
        return jax.nn.sigmoid(params)

    def weights(self, params: Array) -> tuple[Array, Array]:
        """ε^j (1 - ε)^(d - j) of every j, for P and for O."""
        moves, signs = (
            jnp.exp(j * jax.nn.log_sigmoid(params) + (len(j) - 1 - j) * jax.nn.log_sigmoid(-params))
            for j in self._failures()
        )
        return moves, signs

    def _failures(self) -> tuple[Array, Array]:
        """How many trials failed, by j, for P and for O."""
        dtype = self.level.dtype
        return (
            jnp.arange(self.transition.shape[0], dtype=dtype),
            jnp.arange(self.observation.shape[0], dtype=dtype),
        )

    def library_of(self, weights: tuple[Array, Array]) -> Library:
        """The library for weights of the K_j."""
        moves, signs = (
            part[0] if len(part) == 1 else jnp.tensordot(weight, part, axes=1)  # without noise, no gradient
            for weight, part in zip(weights, (self.transition, self.observation), strict=True)
        )
        models = jax.vmap(support.with_probabilities)(self.base.models, moves, signs)
        return self.base.replace(models=models)

    def library(self, params: Array) -> Library:
        """The library at the learned level."""
        return self.library_of(self.weights(params))

    def models(self, params: Array) -> list[POMDP]:
        """The models at the learned level, checked and named."""
        library, sizes = _jit_library(self, params), self.base.state_mask.sum(axis=1).tolist()
        return [
            support.finished(library.model(k), names, sizes[k]) for k, names in enumerate(self.base.names)
        ]

    def prepare(self, histories: Histories) -> Histories:
        return jax.tree.map(jnp.asarray, histories)

    def log_likelihoods_of(self, weights: tuple[Array, Array], data: Histories) -> Array:
        """[N], for weights of the K_j."""
        return log_evidence(self.library_of(weights), data)

    def divergence(self, params: Array) -> Array:
        """KL(start || learned) of one trial []."""
        failing = self.level * (jnp.log(self.level) - jax.nn.log_sigmoid(params))
        return failing + (1 - self.level) * (jnp.log1p(-self.level) - jax.nn.log_sigmoid(-params))

    def maximise(self, counts: tuple[Array, Array], trust: Array) -> Array:
        """The logit of the share of failures among the trials that are expected, and `trust` pseudo-trials."""
        failed, total = trust * self.level, trust
        for j, count in zip(self._failures(), counts, strict=True):
            failed, total = failed + jnp.sum(j * count), total + (len(j) - 1) * jnp.sum(count)
        return jnp.log(failed) - jnp.log(total - failed)


_jit_library = jax.jit(Noise.library)


def _builder(
    name: str, model: int, rules: str, usual: float, overrides: Mapping[str, Any]
) -> Callable[[float], Description]:
    """A function that builds a domain's model at a level, with the teammate of its default level."""
    domain = domains.get(name)
    known = domain.structure(model, rules, noise=usual, **overrides)
    if not isinstance(known, World):
        return lambda level: domain.description(model, rules, noise=level, **overrides)
    teammate = known.teammate  # a planner's policy may jump from one level to the next

    def build(level: float) -> Description:
        world = domain.structure(model, rules, noise=level, **overrides)
        return world.mmdp.pomdp(teammate, world.sensor, world.observations)

    return build


def _polynomials(build: Callable[[float], Description], what: str) -> tuple:
    """A model and its K_j of P and of O."""
    kernel = ""
    for most in DEGREES:
        nodes = (1 - np.cos((2 * np.arange(most + 1) + 1) * np.pi / (2 * most + 2))) / 2
        levels = np.array([*nodes, *BETWEEN])
        built = [build(float(level)) for level in levels]
        sizes = (built[0].num_actions, built[0].num_states)
        moved = support.align_transitions([one.transition for one in built], *sizes)
        seen = support.align_observations(
            [one.observation for one in built], *sizes, built[0].num_observations
        )
        found = [_solve(part.entries, levels, most) for part in (moved, seen)]
        if found[0] is not None and found[1] is not None:
            aligned = [part._replace(entries=e) for part, e in zip((moved, seen), found, strict=True)]
            return (domains.to_pomdp(built[0], storage="blocked"), *aligned)
        kernel = "transitions" if found[0] is None else "observations"
    raise JatpoError(f"the {kernel} of {what} are not polynomials in its noise level: choose another model")


def _solve(entries: np.ndarray, levels: np.ndarray, most: int) -> np.ndarray | None:
    """The K_j [d + 1, ...] that give the entries at all levels, of the lowest degree d; None if there are none."""
    flat = entries.reshape(len(levels), -1)
    for degree in range(most + 1):
        basis = _basis(levels, degree)
        solved = np.linalg.lstsq(basis, flat)[0]
        solved = np.where(np.abs(solved) < CLOSE, 0, np.maximum(solved, 0))
        if np.abs(basis.dot(solved) - flat).max() <= CLOSE:
            return solved.reshape(degree + 1, *entries.shape[1:])
    return None


def _basis(levels: np.ndarray, degree: int) -> np.ndarray:
    """ε^j (1 - ε)^(d - j) [levels, d + 1]."""
    j = np.arange(degree + 1)
    return levels[:, None] ** j * (1 - levels[:, None]) ** (degree - j)


def _uniform(num_actions: int, num_states: int, size: int) -> Coordinates:
    a, y, z = (part.ravel() for part in np.indices((num_actions, num_states, size)))
    return a, y, z, np.full(len(a), 1 / size)


def _stack(parts: Sequence[support.Aligned]) -> Array:
    """The K_j of K models, padded to one shape [D + 1, K, ...]."""
    entries = [part.entries for part in parts]
    degree = max(len(part) for part in entries)
    entries = [_raised(part, degree - 1) for part in entries]
    shape = tuple(max(sizes) for sizes in zip(*(part.shape for part in entries), strict=True))
    stacked = np.zeros((shape[0], len(entries), *shape[1:]))
    for k, part in enumerate(entries):
        stacked[(slice(part.shape[0]), k, *(slice(size) for size in part.shape[1:]))] = part
    return jnp.asarray(stacked, jax.dtypes.canonicalize_dtype(np.float64))


def _raised(entries: np.ndarray, degree: int) -> np.ndarray:
    """The same polynomials in a higher degree: the additional trials have no effect."""
    for d in range(len(entries), degree + 1):
        longer = np.zeros((d + 1, *entries.shape[1:]))
        longer[:-1] += entries
        longer[1:] += entries
        entries = longer
    return entries
