"""What the two rule sets differ in, and what that changes, without sampling anything."""

from __future__ import annotations

from typing import Any

from jatpo import domains
from jatpo.domains.compare import compare_all
from jatpo.domains.exact import exact_returns
from jatpo.domains.parameters import RULES

Rows = list[dict[str, Any]]


def differing_rules(name: str) -> Rows:
    """One row for each parameter in which the rule sets disagree."""
    return [
        {
            "domain": name,
            "parameter": part.name,
            "as_run": _text(part.as_run),
            "as_written": _text(part.as_written),
            "meaning": part.help,
        }
        for part in domains.get(name).differences()
    ]


def effects(name: str) -> Rows:
    """One row for each rule set: exact mean returns over the library, and pairs of models that can be distinguished."""
    domain = domains.get(name)
    rows = []
    for rules in RULES:
        models = [domain.description(k, rules) for k in range(domain.models)]
        returns = [exact_returns(model, domain.horizon) for model in models]
        pairs = compare_all(models)
        rows.append(
            {
                "domain": name,
                "rules": rules,
                "value_iteration": sum(each.value_iteration for each in returns) / len(returns),
                "random": sum(each.random for each in returns) / len(returns),
                "pairs": len(pairs),
                "distinguishable": sum(pair.distinguishable is not False for pair in pairs),
            }
        )
    return rows


def _text(value: Any) -> str:
    """A value in one line."""
    text = ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
    return "(a map)" if "\n" in text else text
