"""The domain rules transcribed a second time, loop by loop, in plain Python (float64).

Nothing here imports jatpo. `transcribe(name, model, rules)` gives a `Transcription`: functions from state
names to dictionaries of names and probabilities.
"""

from oracles.domains import gridworld, maze, overcooked, plant, pursuit
from oracles.domains.transcription import Transcription

# noise and horizon of the published experiments, models of the main table, models of the pool
EPSILON = {
    "gridworld": 0.2,
    "pursuit-task": 0.2,
    "pursuit-teammate": 0.15,
    "pursuit-both": 0.15,
    "abandoned-power-plant": 0.2,
    "ntu": 0.2,
    "overcooked": 0.0,
    "isr": 0.2,
    "mit": 0.2,
    "pentagon": 0.2,
    "cit": 0.1,
}
HORIZON = {
    "gridworld": 50,
    "pursuit-task": 75,
    "pursuit-teammate": 85,
    "pursuit-both": 85,
    "abandoned-power-plant": 50,
    "ntu": 75,
    "overcooked": 50,
    "isr": 75,
    "mit": 75,
    "pentagon": 75,
    "cit": 85,
}
MAIN = {
    "gridworld": 4,
    "pursuit-task": 4,
    "pursuit-teammate": 2,
    "pursuit-both": 8,
    "abandoned-power-plant": 2,
    "ntu": 4,
    "overcooked": 4,
    "isr": 3,
    "mit": 3,
    "pentagon": 3,
    "cit": 3,
}
POOL = {**MAIN, "gridworld": 32, "ntu": 6}


def transcribe(name: str, model: int, rules: str) -> Transcription:
    """The transcription of one of the 70 models under "as_run" or "as_written"."""
    epsilon = EPSILON[name]
    if name == "gridworld":
        return gridworld.transcribe(model, rules, epsilon)
    if name == "pursuit-task" or name == "pursuit-both":
        return pursuit.transcribe(model, rules, epsilon)
    if name == "pursuit-teammate":
        return pursuit.transcribe([0, 4][model], rules, epsilon)
    if name == "abandoned-power-plant":
        return plant.transcribe(model, rules, epsilon)
    if name == "overcooked":
        return overcooked.transcribe(model, rules)
    return maze.transcribe(name, model, rules, epsilon)
