"""Fit parts of a library to histories: the computation behind `jatpo learn`.

noise       every model (or the chosen one) at the learned noise level
prior       the same models with the learned prior
teammate    the models and one more with the learned teammate
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jatpo import domains
from jatpo.errors import JatpoError, unknown
from jatpo.events import OnEvent, ignore
from jatpo.learn.baum_welch import em
from jatpo.learn.fitting import FitSettings, Fitted, fit
from jatpo.learn.histories import Histories
from jatpo.learn.likelihood import log_evidences
from jatpo.learn.noise_level import Noise
from jatpo.learn.parametrisation import batched_log_likelihoods
from jatpo.learn.prior import Prior
from jatpo.learn.teammate import STATE, Teammate
from jatpo.library import Library, Origin
from jatpo.model import POMDP

WHAT = ("noise", "prior", "teammate")
METHODS = ("gradient", "em")
Change = tuple[str, float, float]  # what changed, before, after
SAME = 1e-5  # largest difference between entries of equal models


_jit_evidences = jax.jit(log_evidences)


class Plan(NamedTuple):
    """What is to be fitted: the parametrisation, and the model it starts from (None: all of them)."""

    what: str
    parametrisation: Any
    model: int | None


class LearnedNoise(NamedTuple):
    """The noise level before and after."""

    start: float
    noise: float

    def changes(self) -> list[Change]:
        return [("noise", self.start, self.noise)]


class LearnedPrior(NamedTuple):
    """The prior before, and after by the models' labels."""

    start: list[float]
    prior: dict[str, float]

    def changes(self) -> list[Change]:
        pairs = zip(self.prior.items(), self.start, strict=True)
        return [(f"prior of {label}", start, share) for (label, share), start in pairs]


class LearnedTeammate(NamedTuple):
    """Total variation between the learned and the starting policy over its rows."""

    rows: int
    moved_mean: float
    moved_most: float

    def changes(self) -> list[Change]:
        return [
            ("distance of the policy, mean over rows", 0.0, self.moved_mean),
            ("distance of the policy, largest", 0.0, self.moved_most),
        ]


class Learned(NamedTuple):
    """The library with what was learned, the model that a teammate started from, and the numbers that changed."""

    library: Library
    what: str
    model: int | None
    result: LearnedNoise | LearnedPrior | LearnedTeammate


def plan(
    library: Library, histories: Histories, what: str, model: int | None = None, by: str = STATE
) -> Plan:
    """What to fit. A teammate starts from `model`; default: the model with the highest log-likelihood."""
    if what not in WHAT:
        raise unknown("thing to learn", what, WHAT)
    if model is not None and not 0 <= model < library.num_models:
        raise JatpoError(f"{library.name} has no model {model}: choose from 0 to {library.num_models - 1}")
    if what == "prior":
        if model is not None or library.num_models < 2:
            raise JatpoError(
                "a prior is over all models of a library: leave --model out, and give two models or more"
            )
        return Plan(what, Prior.of_library(library), None)
    if what == "noise":
        return Plan(what, _noise(library, model), model)
    chosen = range(library.num_models) if model is None else [model]
    starts = {k: teammate_of(library.origins[k], by) for k in chosen}
    best = max(starts, key=lambda k: _score(starts[k], histories)) if len(starts) > 1 else chosen[0]
    return Plan(what, starts[best], best)


def _noise(library: Library, model: int | None) -> Noise:
    """The domain's own noise parameter where all models come from one domain, otherwise random observations."""
    chosen = range(library.num_models) if model is None else [model]
    origins = [library.origins[k] for k in chosen]
    prior = library.host_prior[list(chosen)]
    prior = prior / prior.sum() if prior.sum() > 0 else None
    alike = all((part.domain, part.rules, part.overrides) == _source(origins[0]) for part in origins)
    if not alike or not _has_noise(origins[0].domain):
        return Noise.of_models([library.member(k) for k in chosen], prior=prior)
    name, rules, overrides = _source(origins[0])
    return Noise.of_domain(name, [part.model or 0 for part in origins], rules, prior=prior, **overrides)


def _source(origin: Origin) -> tuple[Any, Any, Any]:
    return origin.domain, origin.rules, origin.overrides


def _has_noise(domain: str | None) -> bool:
    return domain is not None and "noise" in domains.get(domain).parameters


def teammate_of(origin: Origin, by: str) -> Teammate:
    """The teammate of a model of a domain, to learn."""
    if origin.domain is None:
        raise JatpoError(
            f"{origin.file} has no separate teammate: only the teammate of a domain's model can be learned"
        )
    return Teammate.of_domain(
        origin.domain, origin.model or 0, origin.rules or "as_run", by, **origin.overrides
    )


def _score(start: Teammate, histories: Histories) -> float:
    """The mean log-likelihood of the histories."""
    data = start.prepare(histories)
    return float(jnp.mean(batched_log_likelihoods(start, start.start(), data)))


def learn(
    chosen: Plan,
    histories: Histories,
    settings: FitSettings,
    method: str | None = None,
    *,
    seed: int = 0,
    directory: Any = None,
    on_event: OnEvent = ignore,
) -> Fitted:
    """The fit, by gradient or by EM; default: EM for a prior, where the gradient often stays at its start."""
    method = method or ("em" if chosen.what == "prior" else "gradient")
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    if method == "em":
        rounds = {"iterations": settings.steps, "trust": settings.trust}
        return em(chosen.parametrisation, histories, **rounds, on_event=on_event)
    options = {"seed": seed, "directory": directory, "on_event": on_event}
    return fit(chosen.parametrisation, histories, settings, **options)


def conclude(library: Library, chosen: Plan, fitted: Fitted, replace: bool = False) -> Learned:
    """The library with what was learned; with `replace`, a learned teammate replaces the model it started from."""
    part, params = chosen.parametrisation, fitted.params
    what, start = chosen.what, chosen.model
    if chosen.what == "prior":
        value = np.asarray(part.value(params), np.float64)
        shares = dict(zip(library.labels, value.tolist(), strict=True))
        result = LearnedPrior(library.host_prior.tolist(), shares)
        return Learned(library.with_prior(value / value.sum()), what, start, result)
    if chosen.what == "noise":
        level = float(part.value(params))
        numbers = range(library.num_models) if start is None else [start]
        for k, model in zip(numbers, part.models(params), strict=True):
            library = _at_level(library, k, model, level)
        return Learned(library, what, start, LearnedNoise(float(part.level), level))
    moved = _moved(part, params)
    k, model = start or 0, part.models(params)[0]
    label = f"learned teammate, from {library.labels[k]}"
    if replace:
        return Learned(library.with_model(k, model, label), what, start, moved)
    count = library.num_models
    prior = np.append(library.host_prior * count / (count + 1), 1 / (count + 1))
    return Learned(library.with_member(model, label, prior=prior), what, start, moved)


def _at_level(library: Library, k: int, model: POMDP, level: float) -> Library:
    """The library with model k at the learned level; it keeps its domain if that builds the same model."""
    origin, label = library.origins[k], f"{library.labels[k]}, noise {level:.4g}"
    if _has_noise(origin.domain):
        overrides = {**origin.overrides, "noise": level}
        made = domains.make(origin.domain or "", origin.model or 0, origin.rules or "as_run", **overrides)
        if _same(made, model):
            return library.with_model(k, made, label, dataclasses.replace(origin, overrides=overrides))
    return library.with_model(k, model, label)


def _same(one: POMDP, other: POMDP) -> bool:
    """Whether two models agree in all entries of P and O up to rounding."""
    for first, second in zip(one.to_sparse()[:2], other.to_sparse()[:2], strict=True):
        both = {}
        for sign, (a, x, y, p) in ((1, first), (-1, second)):
            for key, value in zip(
                zip(a.tolist(), x.tolist(), y.tolist(), strict=True), p.tolist(), strict=True
            ):
                both[key] = both.get(key, 0.0) + sign * value
        if max(map(abs, both.values()), default=0.0) > SAME:
            return False
    return True


def _moved(teammate: Teammate, params: Any) -> LearnedTeammate:
    """Total variation between the learned and the starting policy: mean and largest over its rows."""
    rows = jax.device_get((teammate.weights(params), teammate.initial))
    distance = np.abs(rows[0] - rows[1]).sum(axis=-1) / 2
    return LearnedTeammate(int(distance.size), float(distance.mean()), float(distance.max()))


def expecting(library: Library, histories: Histories) -> Library:
    """The library with a prior fitted to the histories that some model can explain."""
    explained = np.flatnonzero(np.isfinite(np.asarray(_jit_evidences(library, histories))).any(axis=1))
    if not len(explained):
        return library
    prior = Prior.of_library(library)
    learned = np.asarray(prior.value(em(prior, histories.take(explained)).params), np.float64)
    return library.with_prior(learned / learned.sum())
