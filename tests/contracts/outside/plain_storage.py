"""A storage that lives outside the package: P and O as flat coordinate lists, with no more than a storage needs."""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np

from jatpo.pytree import pytree
from jatpo.storage import Observation, Transition, register


def stacked(parts):
    """The lists of K models, padded with entries of probability 0."""
    width = max(part.probability.shape[0] for part in parts)
    sizes = tuple(np.max([part.sizes for part in parts], axis=0).tolist())

    def column(name):
        return np.stack([np.pad(getattr(part, name), (0, width - len(part.probability))) for part in parts])

    names = ("action", "first", "second", "probability")
    return type(parts[0])(*(jax.device_put(column(name)) for name in names), sizes)


@pytree
@dataclass(frozen=True)
class Lists:
    action: jax.Array  # [E] int32
    first: jax.Array  # [E] int32
    second: jax.Array  # [E] int32
    probability: jax.Array  # [E]
    sizes: tuple = field(metadata={"static": True})  # A, X, Z

    @classmethod
    def build(cls, coordinates, sizes, dtype):
        *places, p = coordinates
        return cls(*(jax.device_put(np.asarray(part, np.int32)) for part in places), p.astype(dtype), sizes)

    stack = staticmethod(stacked)

    def under(self, action):
        return jnp.where(self.action == action, self.probability, 0)

    def coordinates(self, num_actions=None):
        kept = np.flatnonzero(np.asarray(self.probability))
        places = [np.asarray(part)[kept].astype(np.int64) for part in (self.action, self.first, self.second)]
        return (*places, np.asarray(self.probability, np.float64)[kept])


@pytree
@dataclass(frozen=True)
class ListedTransition(Lists, Transition):
    @property
    def num_actions(self):
        return self.sizes[0]

    @property
    def num_states(self):
        return self.sizes[1]

    def predict(self, belief, action):
        return jax.ops.segment_sum(belief[self.first] * self.under(action), self.second, self.num_states)

    def expect(self, values):
        place = self.first * self.num_actions + self.action
        moved = values[self.second] * self.probability
        return jax.ops.segment_sum(moved, place, self.num_states * self.num_actions).reshape(
            self.sizes[1::-1]
        )


@pytree
@dataclass(frozen=True)
class ListedObservation(Lists, Observation):
    @property
    def num_observations(self):
        return self.sizes[2]

    def likelihood(self, action, observation):
        seen = jnp.where(self.second == observation, self.under(action), 0)
        return jax.ops.segment_sum(seen, self.first, self.sizes[1])


register("lists", ListedTransition, ListedObservation)
