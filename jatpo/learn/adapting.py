"""From a library and histories to a library that has learned: what `jatpo learn` does, without the printing.

noise       every model (or the one chosen) at the learned level
prior       the same models with the learned prior
teammate    the models and one more, in which the teammate acts as learned
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jatpo.errors import JatpoError, unknown
from jatpo.files import UserLibrary
from jatpo.files.library import Origin
from jatpo.learn.baum_welch import em
from jatpo.learn.entry import Entry, kept_entries
from jatpo.learn.fitting import FitSettings, Fitted, Progress, fit, log_likelihoods
from jatpo.learn.histories import Histories
from jatpo.learn.noise import Noise
from jatpo.learn.prior import Prior
from jatpo.learn.teammate import STATE, Teammate
from jatpo.model import POMDP

WHAT = ("noise", "prior", "teammate")
METHODS = ("gradient", "em")
SAME = 1e-5  # a domain's entries this close to the learned ones are the same model


class Plan(NamedTuple):
    """What is to be learned: the parametrisation, and the model it begins with (None: all of them)."""

    what: str
    parametrisation: Any
    model: int | None


class Learned(NamedTuple):
    """A library that has learned: its entries, their prior [K], and what there is to tell."""

    entries: list[Entry]
    prior: np.ndarray
    facts: dict[str, Any]


def plan(
    library: UserLibrary, histories: Histories, what: str, model: int | None = None, by: str = STATE
) -> Plan:
    """What to fit. Without `model`, a teammate begins with the one that explains the histories best."""
    if what not in WHAT:
        raise unknown("thing to learn", what, WHAT)
    if model is not None and not 0 <= model < library.num_models:
        raise JatpoError(
            f"{library.name} has models 0 to {library.num_models - 1}, and model {model} was asked for"
        )
    if what == "prior":
        if model is not None or library.num_models < 2:
            raise JatpoError(
                "a prior is over all models of a library: leave --model out, and give two models or more"
            )
        return Plan(what, Prior.of_library(library.stacked()), None)
    if what == "noise":
        return Plan(what, _noise(library, model), model)
    chosen = range(library.num_models) if model is None else [model]
    starts = {k: _teammate(library.origins[k], by) for k in chosen}
    best = max(starts, key=lambda k: _score(starts[k], histories)) if len(starts) > 1 else chosen[0]
    return Plan(what, starts[best], best)


def _noise(library: UserLibrary, model: int | None) -> Noise:
    """By the domain's own parameter where all models come from one domain, by random readings otherwise."""
    chosen = range(library.num_models) if model is None else [model]
    origins = [library.origins[k] for k in chosen]
    prior = library.prior[list(chosen)]
    prior = prior / prior.sum() if prior.sum() > 0 else None
    alike = all((part.domain, part.rules, part.overrides) == _source(origins[0]) for part in origins)
    if not alike or not _has_noise(origins[0].domain):
        return Noise.of_models([library.models[k] for k in chosen], prior=prior)
    name, rules, overrides = _source(origins[0])
    return Noise.of_domain(name, [part.model or 0 for part in origins], rules, prior=prior, **overrides)


def _source(origin: Origin) -> tuple[Any, Any, Any]:
    return origin.domain, origin.rules, origin.overrides


def _has_noise(domain: str | None) -> bool:
    from jatpo import domains

    return domain is not None and "noise" in domains.get(domain).parameters


def _teammate(origin: Origin, by: str) -> Teammate:
    if origin.domain is None:
        raise JatpoError(
            f"{origin.file} does not say what the teammate can do: only models of domains have a teammate to learn"
        )
    return Teammate.of_domain(
        origin.domain, origin.model or 0, origin.rules or "as_run", by, **origin.overrides
    )


def _score(start: Teammate, histories: Histories) -> float:
    """The mean log likelihood of the histories."""
    data = start.prepare(histories)
    return float(jnp.mean(log_likelihoods(start, start.start(), data)))


def learn(
    chosen: Plan,
    histories: Histories,
    settings: FitSettings,
    method: str = "gradient",
    *,
    seed: int = 0,
    directory: Any = None,
    progress: Progress | None = None,
) -> Fitted:
    """The fit, by gradient or by EM."""
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    if method == "em":
        rounds = {"iterations": settings.steps, "trust": settings.trust}
        return em(chosen.parametrisation, histories, **rounds, progress=progress)
    options = {"seed": seed, "directory": directory, "progress": progress}
    return fit(chosen.parametrisation, histories, settings, **options)


def conclude(library: UserLibrary, chosen: Plan, fitted: Fitted, replace: bool = False) -> Learned:
    """The entries of the library that has learned; `replace` puts a teammate in the place of its start."""
    part, params = chosen.parametrisation, fitted.params
    facts: dict[str, Any] = {"what": chosen.what, "model": chosen.model}
    entries = kept_entries(library)
    if chosen.what == "prior":
        value = np.asarray(part.value(params), np.float64)
        shares = dict(zip(library.labels, value.tolist(), strict=True))
        return Learned(entries, value, {**facts, "start": library.prior.tolist(), "prior": shares})
    if chosen.what == "noise":
        level = float(part.value(params))
        facts |= {"start": float(part.level), "noise": level}
        numbers = range(library.num_models) if chosen.model is None else [chosen.model]
        for k, model in zip(numbers, part.models(params), strict=True):
            entries[k] = _at_level(entries[k], model, level)
        return Learned(entries, library.prior, facts)
    facts |= _moved(part, params)
    entry = Entry(f"learned teammate, from {library.labels[chosen.model or 0]}", part.models(params)[0])
    if replace:
        entries[chosen.model or 0] = entry
        return Learned(entries, library.prior, facts)
    count = library.num_models
    return Learned([*entries, entry], np.append(library.prior * count / (count + 1), 1 / (count + 1)), facts)


def _at_level(entry: Entry, model: POMDP, level: float) -> Entry:
    """An entry at the learned level: a line that names the domain if the domain makes the same model."""
    from jatpo import domains

    origin, label = entry.origin, f"{entry.label}, noise {level:.4g}"
    if origin is not None and _has_noise(origin.domain):
        overrides = {**origin.overrides, "noise": level}
        made = domains.make(origin.domain or "", origin.model or 0, origin.rules or "as_run", **overrides)
        if _same(made, model):
            return Entry(label, made, dataclasses.replace(origin, overrides=overrides))
    return Entry(label, model)


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


def _moved(teammate: Teammate, params: Any) -> dict[str, Any]:
    """How far a teammate has moved from its start: half the summed absolute difference, mean and largest row."""
    rows = jax.device_get((teammate.weights(params), teammate.initial))
    distance = np.abs(rows[0] - rows[1]).sum(axis=-1) / 2
    return {
        "rows": int(distance.size),
        "moved_mean": float(distance.mean()),
        "moved_most": float(distance.max()),
    }
