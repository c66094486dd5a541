"""Beyond ATPO: what other rules and the Bayes-optimal agent earn with the same library, and what is the most possible.

All agents play the same trials (common random numbers), so differences between them are paired. True models are drawn
from the library's prior, as the upper bound assumes: that of the joint problem, which no agent that has
this library and sees observations can exceed in discounted return.

    gap     informed Perseus minus the agent: the price of not knowing the team
    won     (agent - ATPO) / (Perseus - ATPO) in per cent: the share of ATPO's gap that is recovered, where it has one

With `stress`, the same agents with a wrong library (`misspecified`, and a prior that gives one model ten times the
weight of any other, which is never the true one), and with libraries of 2 to 32 models. The Bayes-optimal agent keeps
the vectors that were solved for the library as it was assumed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from jatpo.domains.parameters import RULES
from jatpo.evaluate import statistics
from jatpo.evaluate.case import Case, Stage
from jatpo.evaluate.experiment import Config, Experiment, Tables, register
from jatpo.evaluate.experiments import misspecified
from jatpo.evaluate.option_fields import integers, numbers, option
from jatpo.evaluate.rollout import chunk_size
from jatpo.evaluate.scenario import Scenario
from jatpo.evaluate.session import Cell, Played
from jatpo.evaluate.solved import Solved
from jatpo.evaluate.trials import Trials
from jatpo.library import Library
from jatpo.tables import Row

INFORMED, BASE, BAYES = "perseus", "atpo", "bayes"
AGENTS = (INFORMED, BASE, "map", "vote", "commit", "q", "lookahead", BAYES)
OUTCOMES = ("steps", "steps_sure")
BOTH = "both"
POOL = "gridworld"
WRONG = 10.0
PRIOR = f"prior 1:{WRONG:g}"
GAINS = ("mean", "gap", "minus_atpo", "minus_atpo_low", "minus_atpo_high")


def no_sizes(text: str) -> tuple[int, ...]:
    """Library sizes from text; none for 0."""
    return () if text == "0" else integers(text)


@register
@dataclass(frozen=True)
class Beyond(Experiment):
    """Compare ATPO with other decision rules and the Bayes-optimal agent, with the joint problem's upper bound.

    All agents play the same trials, so differences are paired; the bound is that of the joint problem.
    """

    name = "beyond"
    agents = AGENTS
    trials = 4096
    rules = (*RULES, BOTH)
    columns: ClassVar = {
        "beyond": (
            *("rules", "domain", "agent", "mean", "gap", "won", "won_low", "won_high", "discounted", "upper"),
            *("median_steps_sure", "decision_us", "solve_s"),
        ),
        "stress": ("rules", "domain", "scenario", "agent", *GAINS),
        "sizes": ("rules", "domain", "size", "agent", *GAINS),
    }
    keys: ClassVar = {
        "beyond": ("rules", "domain", "agent"),
        "certificates": ("rules", "domain"),
        "stress": ("rules", "domain", "scenario", "agent"),
        "sizes": ("rules", "domain", "size", "agent"),
    }

    stress: bool = option(
        False, "Play with a wrong library instead, and with libraries of all sizes.", kept=False
    )
    factors: tuple[float, ...] = option(
        "0,2", "With --stress: the true noise as multiples of the assumed one.", parse=numbers, kept=False
    )
    sizes: tuple[int, ...] = option(
        "2,4,8,16,32",
        "With --stress: sizes of gridworld's library, as in 2,4,8; 0: none.",
        parse=no_sizes,
        kept=False,
    )

    def settings(self, config: Config) -> Row:
        """Both rule sets fit into one directory."""
        return {name: value for name, value in super().settings(config).items() if name != "rules"}

    def stages(self, sources: Sequence[str | Library], config: Config) -> list[Stage]:
        """Every library under each rule set, and with `stress` the pool that libraries of all sizes are drawn from."""
        sets = RULES if config.rules == BOTH else (config.rules,)
        found = []
        for rules in sets:
            found += [Stage(source, rules) for source in sources]
            if self.stress and self.sizes and POOL in sources:
                found.append(Stage(POOL, rules, pool=True))
        return found

    def title(self, stage: Stage) -> str:
        return f"{stage.rules} {stage.title}{', wrong libraries' if self.stress and not stage.pool else ''}"

    def cells(self, case: Case) -> list[Cell]:
        """Every agent in every scenario."""
        rules, part = case.stage.rules, case.part
        scenarios: dict[str, tuple[Scenario, Row]] = {f"{rules}/{part}": (case.scenario, {})}
        if case.stage.pool:
            scenarios = {
                f"sizes/{rules}/{part}/{size:02d}": (
                    case.scenario.replace(size=np.int32(size)),
                    {"size": size},
                )
                for size in self.sizes
            }
        elif self.stress:
            scenarios = {
                f"stress/{rules}/{part}/{name.replace(' ', '-').replace(':', '-')}": (
                    each,
                    {"scenario": name},
                )
                for name, each in stressed(case, self.factors).items()
            }
        return [
            case.cell(agent, scenario, part=place, record=OUTCOMES, label=label)
            for place, (scenario, label) in scenarios.items()
            for agent in case.agents
        ]

    def tables(self, case: Case, played: Sequence[Played]) -> Tables:
        """One row for each scenario and agent; without `stress` also the bounds of the library."""
        if self.stress:
            rows = [
                {**case.row(), **part[0].cell.label, **row}
                for part in _parts(played)
                for row in compare(_trials(part))
            ]
            return {"sizes" if case.stage.pool else "stress": rows}
        joint = any(agent.name == BAYES and agent.refuses(case.library) is None for agent in case.agents)
        proof = certificate(case.solved) if joint else None
        label = {**case.row(), "horizon": case.library.horizon, "models": case.library.num_models}
        speed = {each.cell.agent.name: decision_us(each) for each in played}
        rows = [
            {**label, **row, "decision_us": speed[row["agent"]], **_costs(row["agent"], proof)}
            for row in compare(_trials(played))
        ]
        if proof is None:
            return {"beyond": rows}
        return {"beyond": rows, "certificates": [certificate_row(case, proof, rows)]}

    def main(self) -> Sequence[str]:
        """The tables that this run adds to."""
        return ("stress", "sizes") if self.stress else ("beyond",)


def _parts(played: Sequence[Played]) -> list[list[Played]]:
    """What was played, by scenario."""
    parts: dict[str, list[Played]] = {}
    for each in played:
        parts.setdefault(each.cell.part, []).append(each)
    return list(parts.values())


def _trials(played: Sequence[Played]) -> dict[str, Trials]:
    """The trials of the agents that can play, by name."""
    return {each.cell.agent.name: each.trials for each in played if each.trials is not None}


def stressed(case: Case, factors: Sequence[float]) -> dict[str, Scenario]:
    """The scenarios that make sense in the domain, by name; the right library first."""
    found = misspecified.scenarios(case, factors)
    if case.library.num_models > 1:
        found[PRIOR] = wrong_prior(case.scenario)
    return found


def wrong_prior(scenario: Scenario, factor: float = WRONG) -> Scenario:
    """The scenario with a prior that favours model 0 by `factor`, and true models drawn from all others alike."""
    count, dtype = scenario.prior.shape[0], scenario.prior.dtype
    odds = np.where(np.arange(count) == 0, factor, 1.0)
    others = np.arange(count) > 0
    prior, weights = odds / odds.sum(), others / others.sum()
    return scenario.replace(prior=prior.astype(dtype), weights=weights.astype(dtype))


class Certificate(NamedTuple):
    """What the joint problem proves, and what solving cost."""

    lower: float  # discounted, of the solved vectors
    upper: float  # discounted, not to be exceeded
    vectors: int
    joint_seconds: float
    library_seconds: (
        float | None
    )  # all single models, equal ones once; None where policies came with the library


def certificate(solved: Solved) -> Certificate:
    """The bounds of the joint problem."""
    joint, seconds = solved.joint, None
    if all(policy is None for policy in solved.library.policies):
        seconds = sum({each.model_hash: each.seconds for each in solved.solutions}.values())
    return Certificate(joint.lower, joint.upper, joint.num_vectors, joint.seconds, seconds)


def _costs(agent: str, proof: Certificate | None) -> Row:
    if proof is None:
        return {"upper": None, "solve_s": None}
    return {"upper": proof.upper, "solve_s": proof.joint_seconds if agent == BAYES else proof.library_seconds}


def compare(found: Mapping[str, Trials]) -> list[Row]:
    """One row for each agent: returns, gap to informed Perseus, gain over ATPO, and steps until it is sure."""
    return [_row(found, agent, run) for agent, run in found.items()]


def decision_us(each: Played) -> float | None:
    """Microseconds of a decision, where they could be measured."""
    if each.chunk_seconds is None or each.trials is None:
        return None
    steps = chunk_size(each.cell.scenario.library) * float(each.trials.records["steps"].mean())
    return 1e6 * each.chunk_seconds / steps


def _row(found: Mapping[str, Trials], agent: str, run: Trials) -> Row:
    row = {"agent": agent, **statistics.estimate(run.returns)._asdict()}
    row |= statistics.estimate(run.discounted).interval("discounted")
    informed, base = found.get(INFORMED), found.get(BASE)
    if informed is not None:
        row |= statistics.difference(informed.returns, run.returns).interval("gap")
        nothing = np.zeros_like(run.discounted)
        row |= statistics.relative(run.discounted, nothing, informed.discounted).interval("scaled")
    if base is not None and agent != BASE:
        row |= statistics.difference(run.returns, base.returns).interval("minus_atpo")
        row |= statistics.difference(run.discounted, base.discounted).interval("minus_atpo_discounted")
    if base is not None and informed is not None and agent not in (INFORMED, BASE):
        row |= share_won("won", run.returns, base.returns, informed.returns)
        row |= share_won("won_discounted", run.discounted, base.discounted, informed.discounted)
    return {**row, **_times(run)}


def share_won(name: str, ours: np.ndarray, base: np.ndarray, informed: np.ndarray) -> Row:
    """The share of ATPO's gap, in per cent; None where the interval of the gap includes 0."""
    if statistics.difference(informed, base).low <= 0:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return statistics.relative(ours, base, informed).interval(name)


def _times(run: Trials) -> Row:
    """Steps of a trial, and the median until the true model has 0.9; None where most trials never get there."""
    sure = np.where(run.records["steps_sure"] < 0, math.inf, run.records["steps_sure"])
    median = float(np.median(sure))
    return {
        "steps": float(run.records["steps"].mean()),
        "median_steps_sure": median if math.isfinite(median) else None,
        "share_sure": float(np.isfinite(sure).mean()),
    }


def certificate_row(case: Case, proof: Certificate, rows: Sequence[Row]) -> Row:
    """The bounds of one domain next to the best that agents reach."""
    own = {row["agent"]: row["discounted"] for row in rows}
    ours = {name: value for name, value in own.items() if name != INFORMED}
    best = max(ours, key=lambda name: ours[name], default=None)
    row = {**case.row(), "models": case.library.num_models, **proof._asdict()}
    row |= {"atpo": own.get(BASE), "best_agent": best, "best": ours.get(best) if best else None}
    return {**row, "informed": own.get(INFORMED)}
