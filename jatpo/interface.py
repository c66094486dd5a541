"""Whether models have the same actions and observations in the same order, as the models of a library must."""

from __future__ import annotations

from collections.abc import Sequence

from jatpo.errors import JatpoError
from jatpo.model import POMDP

KINDS = ("actions", "observations")


def check_interface(first: POMDP, other: POMDP, one: str, two: str) -> None:
    """Refuse a model (labelled `two`) whose actions or observations differ from the first's (labelled `one`)."""
    for kind in KINDS:
        ours, theirs = getattr(first, kind), getattr(other, kind)
        named = bool(getattr(first.names, kind) and getattr(other.names, kind))
        lacking = _lacking(kind, ours, theirs, one, two) if named else ""
        if len(ours) != len(theirs):
            counts = f"model '{two}' has {len(theirs)} {kind} and model '{one}' has {len(ours)}"
            raise JatpoError(f"{counts}{lacking}: they must agree")
        if lacking:
            raise JatpoError(f"the {kind} of model '{two}' differ from those of model '{one}'{lacking}")
        if named and ours != theirs:
            at = next(
                place for place, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1]
            )
            raise JatpoError(
                f"{kind[:-1]} {at} is '{theirs[at]}' in model '{two}' and '{ours[at]}' in model '{one}': "
                'write them in the same order, or set match = "name" in a TOML library'
            )


def _lacking(kind: str, ours: Sequence[str], theirs: Sequence[str], one: str, two: str) -> str:
    """A clause that names what one of two models lacks."""
    for mine, other, label in ((theirs, ours, two), (ours, theirs, one)):
        missing = [name for name in other if name not in set(mine)]
        if missing:
            return f" (model '{label}' has no {kind[:-1]} '{missing[0]}')"
    return ""
