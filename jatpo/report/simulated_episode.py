"""An episode in simulators: states as the simulator draws them, observations as text, until the trial is done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jatpo.domains import Scene
from jatpo.evaluate.trials import Trials
from jatpo.simulators import SimulatorLibrary

WIDEST = 80  # characters of an observation


def episode_parts(library: SimulatorLibrary, found: Trials, leaders: Sequence[int]) -> dict[str, Any]:
    """The parts of an `Episode` that differ from those of tables, from the records of one trial."""
    truth, last = int(found.truth[0]), int(found.records["steps"][0])
    group = next(place for place, members in enumerate(library.members) if truth in members)
    simulator = library.entry(truth)
    states = found.records["states"][group]
    drawn = [simulator.draw_state(_at(states, time)) for time in range(last + 1)]
    seen = [observation_text(_at(found.records["observations"], time)) for time in range(last)]
    scenes, observations = tuple(dict.fromkeys(drawn)), tuple(dict.fromkeys(seen))
    return {
        "action_names": library.names[0].actions or tuple(map(str, range(library.num_actions))),
        "observation_names": observations,
        "scenes": dict.fromkeys({truth, *leaders}, Scene(scenes)),
        "states": np.array([scenes.index(name) for name in drawn]),
        "observations": np.array([observations.index(name) for name in seen], int),
    }


def observation_text(observation: Any) -> str:
    """An observation as text: bits without commas, several parts one after the other."""
    text = " ".join(map(_leaf_text, jax.tree.leaves(observation)))
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"


def _leaf_text(leaf: np.ndarray) -> str:
    """One array as text."""
    flat = np.asarray(leaf).ravel()
    if flat.size > 1 and np.isin(flat, (0, 1)).all():
        return "".join("1" if bit else "0" for bit in flat)
    return " ".join(f"{number:g}" for number in flat.astype(float).tolist())


def _at(tree: Any, time: int) -> Any:
    """What one trial's records [1, T, ...] hold at a time."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[0, time], tree)
