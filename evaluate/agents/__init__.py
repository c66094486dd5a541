"""Ways to act: the paper's six agents, rules beyond them, and how to write another (docs/agents.md)."""

from jatpo.evaluate.agents.atpo import ATPO, Informed, RandomPicker, StateATPO, StateInformed
from jatpo.evaluate.agents.bayes import Bayes
from jatpo.evaluate.agents.belief_policies import BeliefPolicy, LikeliestState, Vectors
from jatpo.evaluate.agents.bopa import BOPA, Random, ValueIteration
from jatpo.evaluate.agents.catalogue import get, load, names, register
from jatpo.evaluate.agents.joint_planner import JointPlanner
from jatpo.evaluate.agents.lookahead import Lookahead, Q
from jatpo.evaluate.agents.protocol import Agent, Context, agent_class, static
from jatpo.evaluate.agents.recurrent_atpo import RecurrentATPO
from jatpo.evaluate.agents.selecting import Commit, MostLikely, StateCommit, Vote
from jatpo.evaluate.agents.simulator_atpo import SimulatorATPO, SimulatorCommit, SimulatorInformed
from jatpo.evaluate.agents.simulator_policies import (
    AlphaVectors,
    BeliefFunction,
    Preferences,
    SimulatorPolicy,
    StateValues,
)
from jatpo.evaluate.agents.soft_atpo import SoftATPO

__all__ = [
    "ATPO",
    "BOPA",
    "Agent",
    "AlphaVectors",
    "Bayes",
    "BeliefFunction",
    "BeliefPolicy",
    "Commit",
    "Context",
    "Informed",
    "JointPlanner",
    "LikeliestState",
    "Lookahead",
    "MostLikely",
    "Preferences",
    "Q",
    "Random",
    "RandomPicker",
    "RecurrentATPO",
    "SimulatorATPO",
    "SimulatorCommit",
    "SimulatorInformed",
    "SimulatorPolicy",
    "SoftATPO",
    "StateATPO",
    "StateCommit",
    "StateInformed",
    "StateValues",
    "ValueIteration",
    "Vectors",
    "Vote",
    "agent_class",
    "get",
    "load",
    "names",
    "register",
    "static",
]
