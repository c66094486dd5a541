"""`certify` in rational numbers, for small models: no rounding, so no error term.

The same statements as in `jatpo.certify`, spelled out one belief at a time.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from jatpo.certify import Certificate, certify, restricted
from jatpo.errors import JatpoError
from jatpo.evidence import BACKED_UP, Evidence, typed
from jatpo.model import Sparse

Measure = dict[int, Fraction]


def certify_exact(model: Sparse, num_observations: int, evidence: Evidence) -> Certificate:
    """The interval that `evidence` proves, in rationals, rounded outward to floats."""
    certify(model, num_observations, evidence)  # refuses what is malformed
    check = _Check(restricted(model, evidence.states), typed(evidence))
    lower, upper = check.below(), check.above()
    if lower > upper:
        raise JatpoError(
            f"the certified bounds cross: {float(lower)} > {float(upper)}; solve the model again"
        )
    return Certificate(_outward(lower, -math.inf), _outward(upper, math.inf), "exact")


def _outward(value: Fraction, to: float) -> float:
    near = float(value)
    wrong = Fraction(near) > value if to < 0 else Fraction(near) < value
    return math.nextafter(near, to) if wrong else near


class _Check:
    def __init__(self, model: Sparse, e: Evidence) -> None:
        self.X, self.A = model.reward.shape
        self.e = e
        self.transition = _rows(model.transition)
        self.observation = _rows(model.observation)
        self.reward = [[Fraction(value) for value in row] for row in model.reward.T.tolist()]
        self.discount = Fraction(model.discount)
        self.informed = [[Fraction(value) for value in row] for row in e.informed.tolist()]
        self.initial = {x: Fraction(p) for x, p in enumerate(model.initial.tolist()) if p}
        arrive = (
            sum(p * sum(self.observation.get((a, y), {}).values()) for y, p in self.transition[a, x].items())
            for a in range(self.A)
            for x in range(self.X)
        )
        self.rate = self.discount * max(arrive)
        if self.rate >= 1:
            raise JatpoError(
                f"the rows of the model times the discount {model.discount} reach 1: nothing is bounded"
            )

    def below(self) -> Fraction:
        """What the controller earns at least from its best vector."""
        values = [[Fraction(value) for value in row] for row in self.e.values.tolist()]
        best = max(range(len(values)), key=lambda i: sum(p * values[i][x] for x, p in self.initial.items()))
        short, stack, done = Fraction(0), [best], {best}
        while stack:
            i = stack.pop()
            a, follow = int(self.e.action[i]), self.e.successor[i].tolist()
            for x in range(self.X):
                plan = self.reward[a][x]
                for y, p in self.transition[a, x].items():
                    plan += (
                        self.discount
                        * p
                        * sum(q * values[follow[z]][y] for z, q in self.observation[a, y].items())
                    )
                short = min(short, plan - values[i][x])
            stack += [j for j in set(follow) if j not in done]
            done.update(follow)
        value = sum((p * values[best][x] for x, p in self.initial.items()), Fraction(0))
        return value + short * sum(self.initial.values()) / (1 - self.rate)

    def above(self) -> Fraction:
        """The bound at the initial belief."""
        pairs = ((a, x) for a in range(self.A) for x in range(self.X))
        self.loose = max(Fraction(0), *(self._informed_excess(a, x) for a, x in pairs))  # δ_F
        self.corners = [self._corner(x) for x in range(self.X)]
        self.known: dict[int, Fraction] = {}
        over = self.loose
        for node in np.flatnonzero(self.e.source == BACKED_UP).tolist():
            backed, mass = (self._backup(node, a) for a in range(self.A)), sum(self._belief(node).values())
            over = max(over, (max(backed) - Fraction(self.e.upper[node])) / mass)
        return self._bound(0) + over * sum(self.initial.values()) / (1 - self.rate)

    def _informed_excess(self, a: int, x: int) -> Fraction:
        successors = self._successors({x: Fraction(1)}, a).values()
        future = sum((max(_dot(s, part) for part in self.informed) for s in successors), Fraction(0))
        return self.reward[a][x] + self.discount * future - self.informed[a][x]

    def _corner(self, x: int) -> Fraction:
        value, node = max(part[x] for part in self.informed), int(self.e.corner[x])
        if node >= 0 and self.e.source[node] == BACKED_UP:
            value = min(value, Fraction(self.e.upper[node]) / self._belief(node)[x])
        return value

    def _belief(self, node: int) -> Measure:
        first, states, weights = self.e.belief
        part = slice(first[node], first[node + 1])
        return {x: Fraction(w) for x, w in zip(states[part].tolist(), weights[part].tolist(), strict=True)}

    def _bound(self, node: int, trail: tuple[int, ...] = ()) -> Fraction:
        """A generator's claim, or what its source, the corners and F give a node."""
        source = int(self.e.source[node])
        if source == BACKED_UP:
            return Fraction(self.e.upper[node])
        if node not in self.known:
            belief = self._belief(node)
            value = min(_dot(belief, self.corners), max(_dot(belief, part) for part in self.informed))
            if source >= 0 and source not in trail and len(trail) < 500:
                value = min(value, self._interpolate(belief, source, (*trail, node)))
            if trail:
                return value  # not kept: a cycle may have cut it
            self.known[node] = value
        return self.known[node]

    def _interpolate(self, measure: Measure, node: int, trail: tuple[int, ...] = ()) -> Fraction:
        other = self._belief(node)
        ratio = min(measure.get(x, Fraction(0)) / w for x, w in other.items())
        drop = self._bound(node, trail) - _dot(other, self.corners) if ratio else Fraction(0)
        return _dot(measure, self.corners) + ratio * min(drop, Fraction(0))

    def _backup(self, node: int, a: int) -> Fraction:
        belief, row = self._belief(node), int(self.e.row[node, a])
        if row < 0:
            return _dot(belief, self.informed[a]) + self.loose * sum(belief.values())
        part = slice(self.e.edge[0][row], self.e.edge[0][row + 1])
        child = dict(zip(self.e.edge[1][part].tolist(), self.e.edge[2][part].tolist(), strict=True))
        total = _dot(belief, self.reward[a])
        for z, measure in self._successors(belief, a).items():
            bound = self._interpolate(measure, child[z]) if z in child else _dot(measure, self.corners)
            total += self.discount * bound
        return total

    def _successors(self, belief: Measure, a: int) -> dict[int, Measure]:
        out: dict[int, Measure] = {}
        for x, weight in belief.items():
            for y, p in self.transition[a, x].items():
                for z, q in self.observation[a, y].items():
                    part = out.setdefault(z, {})
                    part[y] = part.get(y, Fraction(0)) + weight * p * q
        return out


def _rows(coordinates: tuple[np.ndarray, ...]) -> dict[tuple[int, int], Measure]:
    rows: dict[tuple[int, int], Measure] = {}
    for a, i, j, p in zip(*(part.tolist() for part in coordinates), strict=True):
        row = rows.setdefault((a, i), {})
        row[j] = row.get(j, Fraction(0)) + Fraction(p)
    return rows


def _dot(measure: Measure, vector: list[Fraction]) -> Fraction:
    return sum((weight * vector[x] for x, weight in measure.items()), Fraction(0))
