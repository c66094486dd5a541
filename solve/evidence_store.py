"""Evidence next to a solution on disk: directory/KEY/evidence, sealed by digests like all checkpoints."""

from __future__ import annotations

from pathlib import Path

from jatpo.disk import Checkpoints
from jatpo.events import OnEvent, ignore
from jatpo.evidence import Evidence, from_arrays, to_arrays

FORMAT = 1  # to be raised when the fields of evidence change
EVIDENCE = "evidence"


def _checkpoints(directory: str | Path, key: str, on_event: OnEvent) -> Checkpoints:
    return Checkpoints(Path(directory).absolute() / key, {"evidence": FORMAT, "key": key}, on_event)


def load_evidence(directory: str | Path, key: str, on_event: OnEvent = ignore) -> Evidence | None:
    """The evidence kept for a solution; None where there is none, damaged one is set aside and reported."""
    return _checkpoints(directory, key, on_event).load(EVIDENCE, lambda meta, arrays: from_arrays(arrays))


def save_evidence(directory: str | Path, key: str, evidence: Evidence, on_event: OnEvent = ignore) -> None:
    """Keep what certifies a solution, in the place of what was kept before."""
    checkpoints = _checkpoints(directory, key, on_event)
    checkpoints.drop(name for name in checkpoints.names(EVIDENCE) if name == EVIDENCE)
    checkpoints.save(EVIDENCE, {}, to_arrays(evidence))
