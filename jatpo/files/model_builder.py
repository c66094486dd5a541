"""From the statements of a file to the numbers of a model, and the storage that fits the machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from jatpo import memory
from jatpo.checked_model import Checked, checked
from jatpo.errors import JatpoError
from jatpo.files.kernel import nonzeros
from jatpo.files.naming import Originals
from jatpo.files.preamble import Preamble
from jatpo.files.rewards import expected
from jatpo.files.spec import Spec, make_specs
from jatpo.validate import Coordinates


def checked_model(preamble: Preamble, specs: dict[str, Spec], originals: Originals) -> Checked:
    """The numbers and names that the preamble and the writes of a file describe."""
    path = preamble.path
    for item, value in (("discount", preamble.discount), ("values", preamble.sign)):
        if value is None:
            raise JatpoError(f"{path}: found the end of the file, expected '{item}:'")
    specs = specs or make_specs(preamble.symbols, f"{path}: found the end of the file", path)
    start = preamble.start()
    specs["T"].settle_resets(start)
    with in_file(path):
        return _build(preamble, specs, start, originals)


@contextlib.contextmanager
def in_file(path: str) -> Iterator[None]:
    """Name the file in what is refused."""
    try:
        yield
    except JatpoError as error:
        raise JatpoError(f"{path}: {error}") from error


def _build(preamble: Preamble, specs: dict[str, Spec], start: np.ndarray, originals: Originals) -> Checked:
    actions, states = preamble.symbols["actions"], preamble.symbols["states"]
    observations = preamble.symbols.get("observations", states)  # without observations the state is seen
    transition = nonzeros(specs.pop("T").writes, "transition", states.names)
    if "O" in specs:
        observation = nonzeros(specs.pop("O").writes, "observation", states.names)
    else:
        observation = _seen(actions.size, states.size)
    reward = expected(specs["R"].writes, transition, observation)
    _refuse_too_large(transition, observation, (actions.size, states.size, observations.size))
    return checked(
        transition,
        observation,
        0.0 - reward if preamble.sign == -1 else reward,
        start,
        float(preamble.discount or 0),
        num_states=states.size,
        num_actions=actions.size,
        num_observations=observations.size,
        names=(
            originals.restore("state", states.names),
            originals.restore("action", actions.names),
            originals.restore(observations.kind, observations.names),
        ),
    )


def _seen(num_actions: int, num_states: int) -> Coordinates:
    """O of a file without observations: the state is seen."""
    a = np.repeat(np.arange(num_actions), num_states)
    y = np.tile(np.arange(num_states), num_actions)
    return a, y, y, np.ones(len(y))


def fitting_storage(found: Checked) -> str:
    """ "auto", or the only storage that fits."""
    num_states, num_actions = found.sparse.reward.shape
    sizes = (num_actions, num_states, found.num_observations)
    dense, blocked, free = _needs(found.sparse.transition, found.sparse.observation, sizes)
    if dense > free or blocked > free:
        return "blocked" if dense > free else "dense"
    return "auto"


def _refuse_too_large(transition: Coordinates, observation: Coordinates, sizes: tuple[int, int, int]) -> None:
    """Refuse a model that fits in no storage."""
    dense, blocked, free = _needs(transition, observation, sizes)
    if dense > free and blocked > free:
        what = f"a model of {sizes[1]} states, {sizes[0]} actions and {sizes[2]} observations"
        memory.require(min(dense, blocked), what, "make its rows sparser or use fewer states")


def _needs(
    transition: Coordinates, observation: Coordinates, sizes: tuple[int, int, int]
) -> tuple[int, int, float]:
    """Bytes of dense and of blocked storage, and those that may be used."""
    dense = memory.dense_bytes(sizes[1], sizes[0], sizes[2], itemsize=12)
    return dense, blocked_peak(transition, observation, sizes), memory.SHARE * memory.free_bytes()


def blocked_peak(transition: Coordinates, observation: Coordinates, sizes: tuple[int, int, int]) -> int:
    """Bytes that building blocked storage takes: lists as long as the longest row, for every row."""
    pairs = sizes[0] * sizes[1]
    successors = _longest(transition, sizes, pairs)
    symbols = _longest(observation, sizes, pairs)
    return pairs * (2 * successors * 24 + symbols * 40)


def _longest(coordinates: Coordinates, sizes: tuple[int, int, int], pairs: int) -> int:
    a, row = coordinates[:2]
    return int(np.bincount(a.astype(np.int64) * sizes[1] + row, minlength=1).max(initial=0)) if pairs else 0
