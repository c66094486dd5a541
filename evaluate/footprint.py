"""What solving and playing a library takes of memory, part by part, before any of it is made.

A part is a number of equal units, such as belief points of X numbers each. Where an option sets that number, what to
change is the largest that fits, or all such numbers in proportion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from jatpo import memory
from jatpo.beliefs import Dense, Representation
from jatpo.errors import JatpoError
from jatpo.evaluate.rollout import chunk_size
from jatpo.library import Library
from jatpo.solve.base import Solver

NUMBER_BYTES = 4  # of an index
DENSE = Dense()


@dataclass(frozen=True)
class Part:
    """`number` units of `each` bytes for `stage` ("models", "solve" or "play"); `option` sets the number."""

    stage: str
    name: str
    number: int
    each: int
    option: str = ""

    @property
    def nbytes(self) -> int:
        """Bytes of all units."""
        return self.number * self.each


def footprint(
    library: Library, solver: Solver, vectors: int, devices: int, belief: Representation = DENSE
) -> list[Part]:
    """The parts of a library that is solved by `solver` and played with policies of `vectors` vectors."""
    item, states = library.prior.dtype.itemsize, library.num_states
    largest = max(model.nbytes for model in library.members)
    parts = [
        Part("models", "models as they were read", 1, sum(model.nbytes for model in library.members)),
        Part("models", "models stacked", library.num_models, largest),
    ]
    each = library.members[0]
    parts += [
        Part("solve", name, number, size, option)
        for name, number, size, option in solver.reserve(each.num_states, each.num_actions, item)
    ]
    trials = chunk_size(library)
    held = library.num_models * belief_bytes(belief, library)
    return [
        *parts,
        Part("play", "policies", library.num_models * vectors, states * item + NUMBER_BYTES),
        Part("play", "the world and the library of each device", devices, 2 * library.num_models * largest),
        Part("play", "beliefs and their successors, for each trial", devices * trials, held),
    ]


def belief_bytes(belief: Representation, library: Library) -> int:
    """Bytes of a belief in the largest model, and of what it becomes, before and after an observation."""
    model = max(library.members, key=lambda own: own.num_states)
    held = jax.eval_shape(lambda own: belief.start(None, own), model)
    moved = jax.eval_shape(lambda own, now: belief.predict(None, own, now, jnp.int32(0)), model, held)
    now, after = (
        sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(part)) for part in (held, moved)
    )
    return now + 2 * after


def stage_bytes(parts: Sequence[Part]) -> dict[str, int]:
    """Bytes that are needed at once: the models always, and what solving or playing adds to them."""
    models = sum(part.nbytes for part in parts if part.stage == "models")
    return {
        stage: models + sum(part.nbytes for part in parts if part.stage == stage)
        for stage in ("solve", "play")
    }


def remedies(parts: Sequence[Part], room: float) -> str:
    """What to change so that `parts`, all needed at once, fit into `room` bytes; empty where no option helps."""
    options = [part for part in parts if part.option]
    total = sum(part.nbytes for part in parts)
    for part in sorted(options, key=lambda own: -own.nbytes):  # the largest alone, if that is enough
        spare = room - (total - part.nbytes)
        if spare >= part.each:
            return f"{part.option}={int(spare // part.each)} (now {part.number})"
    changeable = sum(part.nbytes for part in options)
    share = (room - (total - changeable)) / changeable if options else 0
    numbers = [(part, int(part.number * share)) for part in options]
    if not numbers or min(number for _, number in numbers) < 1:
        return ""
    return " ".join(f"{part.option}={number}" for part, number in numbers)


def check(parts: Sequence[Part], what: str, free: int) -> None:
    """Refuse what does not fit into the memory that is `free`, with the figure and what to change."""
    needed = stage_bytes(parts)
    stage = max(needed, key=lambda name: needed[name])
    room = memory.SHARE * free
    if needed[stage] <= room:
        return
    change = remedies([part for part in parts if part.stage in ("models", stage)], room)
    advice = change or "a smaller model, fewer models at once, or a larger machine"
    raise JatpoError(
        f"{what} needs {memory.readable(needed[stage])} to {stage} and {memory.readable(free)} of memory are free: "
        f"choose {advice}"
    )
