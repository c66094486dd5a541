"""Rows of results written by hand, for tests of the report."""

import json

from jatpo.disk import digest_json, sealed
from jatpo.report.results import Results

AGENTS = ("value_iteration", "perseus", "atpo", "random_picker", "bopa", "random")


def row(domain, agent, mean, more=None):
    """A row of the main table with an interval of 2 to each side; `more` replaces fields."""
    row = {"domain": domain, "rules": "as_run", "agent": agent, "mean": mean, "std": 4.0, "mix": "uniform"}
    row |= {"low": mean - 2, "high": mean + 2, "compatible": True, "trials": 16}
    row |= {"published_mean": mean + 1, "published_std": 3.0, "published_relative": 90.0}
    row |= {"relative": 88.8, "relative_low": 85.0, "relative_high": 92.5}
    if agent != "atpo":
        row |= {"atpo_minus": 12.5, "atpo_minus_low": 10.25, "atpo_minus_high": 14.75}
    return row | (more or {})


def made(**changes):
    """Results of one domain; `changes` replace fields of rows, as in atpo={"mean": 1.0}."""
    summary = [
        row("ntu", agent, 90.25 - 7 * number, changes.get(agent)) for number, agent in enumerate(AGENTS)
    ]
    curves = [
        {"domain": "ntu", "agent": agent, "step": step}
        | {f"{what}{end}": 0.5 for what in ("probability", "entropy") for end in ("", "_low", "_high")}
        for agent in ("atpo", "bopa")
        for step in range(4)
    ]
    scaling = [row("ntu", "atpo", 80.0, {"size": size}) for size in (2, 3)]
    times = {"domain": "ntu", "models": 4, "published_setup": 14.0, "setup": 0.5, "setup_ratio": 28.0}
    times |= {"published_solve": 605.0, "solve": 5.0, "solve_ratio": 121.0}
    effects = [
        {
            "domain": "ntu",
            "rules": rules,
            "value_iteration": 1.5,
            "random": 0.5,
            "pairs": 6,
            "distinguishable": n,
        }
        for rules, n in (("as_run", 0), ("as_written", 6))
    ]
    beyond = [
        {
            "domain": "ntu",
            "rules": "as_run",
            "agent": agent,
            "trials": 16,
            "mean": 90.0 + n,
            "discounted": 60.0 + n,
        }
        | {"scaled": 95.0 + n, "scaled_low": 94.0, "scaled_high": 99.0, "upper": 63.5}
        for n, agent in enumerate(("perseus", "atpo", "bayes"))
    ]
    aggregate = [
        {"agent": agent, "domains": 2, "baseline": "atpo", "mean": 0.5}
        | {f"{what}{end}": 0.5 for what in ("iqm", "improvement") for end in ("", "_low", "_high")}
        for agent in AGENTS
    ]
    profile = [
        {"agent": agent, "score": score, "share": 1 - score, "share_low": 0.9 - score, "share_high": 1.0}
        for agent in AGENTS
        for score in (0.0, 0.5, 1.0)
    ]
    tables = {
        "aggregate": aggregate,
        "profile": profile,
        "summary": summary,
        "curves": curves,
        "scaling": scaling,
        "times": [times],
        "effects": effects,
        "beyond": beyond,
    }
    return Results(
        tables, {"trials": 16, "rules": "as_run", "command": "jatpo reproduce ntu"}, {"jatpo": "1"}
    )


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def write(folder, **tables):
    """A directory of results with these tables, as a `Store` would leave it."""
    folder.mkdir(exist_ok=True)
    for name, rows in tables.items():
        (folder / f"{name}.json").write_text(json.dumps(rows))
    known = {name: [digest_json(rows)] for name, rows in tables.items()}
    (folder / "manifest.json").write_text(json.dumps(sealed({"format": 2, "tables": known})))
