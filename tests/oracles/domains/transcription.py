"""What a transcription offers, and the rules common to all domains."""

from collections.abc import Callable
from dataclasses import dataclass

ABSORBING = "absorbing"
GRID_MOVES = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0), "stay": (0, 0)}

Chances = dict[str, float]


@dataclass(frozen=True)
class Transcription:
    """One model: every function takes and gives names."""

    states: list[str]
    actions: list[str]
    observations: list[str]
    transition: Callable[[str, str], Chances]  # (state, action) -> {next state: probability}
    observation: Callable[[str, str], Chances]  # (action, next state) -> {observation: probability}
    reward: Callable[[str], float]
    start: Chances
    discount: float


def gather(outcomes) -> dict:
    """Add up the probabilities of (outcome, probability) pairs, leaving out the impossible ones."""
    chances: dict = {}
    for outcome, probability in outcomes:
        if probability > 0.0:
            chances[outcome] = chances.get(outcome, 0.0) + probability
    return chances


def uniform(outcomes) -> dict:
    outcomes = list(outcomes)
    return {outcome: 1.0 / len(outcomes) for outcome in outcomes}


def assemble(
    situations: list,
    name_of: Callable,
    solved: Callable,
    step: Callable,
    see: Callable,
    start: dict,
    *,
    actions: list[str],
    observations: list[str],
    observation_absorbing: str,
    discount: float,
) -> Transcription:
    """Add the common rules: 100 once in a solved situation, then absorbing for ever; -1 elsewhere.

    `situations` are the domain's own tuples; step(situation, action) -> {situation: probability};
    see(action, situation) -> {observation: probability}.
    """
    by_name = {name_of(situation): situation for situation in situations}

    def transition(state: str, action: str) -> Chances:
        if state == ABSORBING or solved(by_name[state]):
            return {ABSORBING: 1.0}
        return {name_of(after): p for after, p in step(by_name[state], action).items()}

    def observation(action: str, state: str) -> Chances:
        if state == ABSORBING:
            return {observation_absorbing: 1.0}
        return see(action, by_name[state])

    def reward(state: str) -> float:
        if state == ABSORBING:
            return 0.0
        return 100.0 if solved(by_name[state]) else -1.0

    return Transcription(
        states=[*by_name, ABSORBING],
        actions=list(actions),
        observations=list(observations),
        transition=transition,
        observation=observation,
        reward=reward,
        start={name_of(situation): p for situation, p in start.items()},
        discount=discount,
    )
