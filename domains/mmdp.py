"""The two-agent Markov decision process behind a domain (the paper's MMDP), in NumPy float64.

Joint dynamics are padded successor lists: entry s of (a, b, x) leads to `successors[a, b, x, s]` with
probability `probabilities[a, b, x, s]`; a is the ad hoc agent's action, b the teammate's. Given value
iteration it yields the optimal joint policy; given a teammate it yields the ad hoc agent's POMDP,

    P[a, x, y] = sum_b teammate(b | x) P(y | x, a, b).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from jatpo.disk import digest
from jatpo.domains.description import Coordinates, Description
from jatpo.domains.sweeps import iterate_values
from jatpo.ties import share_best

SOLVED, WANDERING, FINISHED = 100.0, -1.0, 0.0  # reward in a goal state, elsewhere, in the absorbing state
TIE = 1e-6  # joint actions this close to the best count as optimal
RESIDUAL = 1e-11  # value iteration stops when no value moves more than this
ABSORBING = "absorbing"


@dataclass(frozen=True, eq=False)
class JointSolution:
    """Values [X] and q [A, B, X] of the team, and its optimal joint policy [A, B, X], ties uniform."""

    values: np.ndarray
    q: np.ndarray
    policy: np.ndarray
    iterations: int

    def marginal_teammate(self) -> np.ndarray:
        """The teammate's part of the joint policy, [X, B]."""
        return self.policy.sum(axis=0).T

    def first_teammate(self) -> np.ndarray:
        """The teammate's part of the first optimal joint action in agent-major order, [X, B]."""
        actions, replies, states = self.policy.shape
        first = np.argmax(self.policy.reshape(actions * replies, states) > 0, axis=0)
        return np.eye(replies)[first % replies]


@dataclass(frozen=True, eq=False)
class MMDP:
    """Joint dynamics [A, B, X, S], reward [X, A, B], start [X]; in `terminal` [X] states nobody acts."""

    states: tuple[str, ...]
    actions: tuple[str, ...]
    teammate_actions: tuple[str, ...]
    successors: np.ndarray
    probabilities: np.ndarray
    reward: np.ndarray
    initial: np.ndarray
    discount: float
    terminal: np.ndarray

    @classmethod
    def episodic(
        cls,
        states: Sequence[str],
        actions: Sequence[str],
        teammate_actions: Sequence[str],
        successors: np.ndarray,
        probabilities: np.ndarray,
        solved: np.ndarray,
        initial: np.ndarray,
        discount: float,
    ) -> MMDP:
        """Adds the absorbing state (last) to dynamics [A, B, X, S] and sends the states `solved` [X] to it.

        Reward 100 in a solved state, -1 elsewhere, 0 in the absorbing one.
        """
        size, absorbing = len(states) + 1, len(states)
        shape = (len(actions), len(teammate_actions), size, successors.shape[-1])
        terminal = np.append(solved, True)
        onward = np.full(shape, absorbing)
        onward[:, :, :-1] = np.where(solved[:, None], absorbing, successors)
        padded = np.zeros(shape)
        padded[:, :, :-1] = np.broadcast_to(probabilities, successors.shape)
        padded[:, :, terminal] = np.arange(shape[3]) == 0
        reward = np.append(np.where(solved, SOLVED, WANDERING), FINISHED)
        return cls(
            (*states, ABSORBING),
            tuple(actions),
            tuple(teammate_actions),
            onward,
            padded,
            np.broadcast_to(reward[:, None, None], (size, shape[0], shape[1])),
            np.append(initial, 0.0),
            float(discount),
            terminal,
        )

    def restrict(self, actions: Sequence[int]) -> MMDP:
        """The same process with only some of the ad hoc agent's actions."""
        chosen = list(actions)
        return replace(
            self,
            actions=tuple(self.actions[a] for a in chosen),
            successors=self.successors[chosen],
            probabilities=self.probabilities[chosen],
            reward=self.reward[:, chosen],
        )

    def content_hash(self) -> str:
        """A digest of everything the optimal joint policy depends on."""
        return digest((self.successors, self.probabilities, self.reward, self.discount))

    def value_iteration(self) -> JointSolution:
        """The optimal joint policy; the same process solved twice in one Python process is solved once."""
        key = self.content_hash()
        if key not in _solutions:
            _solutions[key] = _solve(self)
            if len(_solutions) > _KEPT:
                _solutions.popitem(last=False)
        _solutions.move_to_end(key)
        return _solutions[key]

    def pomdp(
        self, teammate: np.ndarray, observation: Coordinates, observations: Sequence[str]
    ) -> Description:
        """The ad hoc agent's POMDP beside `teammate` [X, B] (or [A, X, B]), seen through O[a, y, z]."""
        actions, replies, states, _ = self.successors.shape
        policy = np.broadcast_to(teammate, (actions, states, replies))
        policy = np.where(self.terminal[:, None], 0.0, policy)
        # In terminal states every joint action does the same: the first stands for all.
        acting = np.where(self.terminal[:, None], np.arange(replies) == 0, policy)
        weights = acting.swapaxes(1, 2)[..., None] * self.probabilities
        a, b, x, s = np.nonzero(weights)
        transition = (a, x, self.successors[a, b, x, s], weights[a, b, x, s])
        return Description(
            states=self.states,
            actions=self.actions,
            observations=tuple(observations),
            transition=transition,
            observation=observation,
            reward=np.einsum("axb,xab->xa", acting, self.reward),
            initial=self.initial,
            discount=self.discount,
            teammate=policy,
            teammate_actions=self.teammate_actions,
        ).checked()


_KEPT = 64
_solutions: OrderedDict[str, JointSolution] = OrderedDict()


def _solve(process: MMDP, limit: int = 100_000) -> JointSolution:
    """Value iteration to float64 convergence."""
    # States last, successors first: the gather and the maximum run over contiguous memory.
    successors = np.ascontiguousarray(np.moveaxis(process.successors, 3, 0))
    probabilities = np.ascontiguousarray(np.moveaxis(process.probabilities, 3, 0)) * process.discount
    reward = np.ascontiguousarray(np.moveaxis(process.reward, 0, 2))

    def sweep(values: np.ndarray) -> np.ndarray:
        return reward + (probabilities * values[successors]).sum(axis=0)

    advice = f"choose a discount of the two-agent process below {process.discount:g}"
    start = np.zeros(len(process.states))
    q, values, sweeps = iterate_values(sweep, start, (0, 1), RESIDUAL, advice, limit)
    return JointSolution(values, q, share_best(q, TIE, (0, 1)), sweeps)
