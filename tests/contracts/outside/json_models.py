"""A file format from outside the package: a model as JSON, with P and O as lists of [a, x, y, p]."""

import json

import numpy as np

from jatpo import POMDP, JatpoError
from jatpo.disk import write_whole
from jatpo.files.formats import Format, register


def read(path):
    """The model in the file at `path`."""
    with open(path, encoding="utf-8") as file:
        try:
            found = json.load(file)
        except json.JSONDecodeError as error:
            raise JatpoError(f"{path}:{error.lineno}: {error.msg}") from error
    (a, x, y, p), (b, u, z, q) = (zip(*found[part], strict=True) for part in ("transition", "observation"))
    return POMDP.from_sparse(
        tuple(map(np.array, (a, x, y, p))),
        tuple(map(np.array, (b, u, z, q))),
        np.array(found["reward"]),
        np.array(found["initial"]),
        found["discount"],
        num_observations=found["num_observations"],
        **found["names"],
    )


def write(model, path):
    """Write `model`; doubles survive JSON, so reading it gives the same numbers."""
    sparse = model.to_sparse()
    content = {
        "transition": list(zip(*(part.tolist() for part in sparse.transition), strict=True)),
        "observation": list(zip(*(part.tolist() for part in sparse.observation), strict=True)),
        "reward": sparse.reward.tolist(),
        "initial": sparse.initial.tolist(),
        "discount": sparse.discount,
        "num_observations": model.num_observations,
        "names": model.names._asdict(),
    }
    write_whole(path, json.dumps(content))


register(Format("json-model", "model", (".jpomdp",), read, write))
