"""Libraries of simulators: the protocol, tables as simulators, and filters for them."""

from jatpo.simulators import foraging, kitchen, torus_pursuit
from jatpo.simulators.particle_filter import ParticleBelief, Particles
from jatpo.simulators.simulator_catalogue import SIMULATORS, build, register
from jatpo.simulators.simulator_library import SimulatorLibrary, simulators_of
from jatpo.simulators.simulator_protocol import Simulator, fixed, simulator_class
from jatpo.simulators.table_filter import Exact, OnTable
from jatpo.simulators.tabular_simulator import TabularSimulator

__all__ = [
    "SIMULATORS",
    "Exact",
    "OnTable",
    "ParticleBelief",
    "Particles",
    "Simulator",
    "SimulatorLibrary",
    "TabularSimulator",
    "build",
    "fixed",
    "foraging",
    "kitchen",
    "register",
    "simulator_class",
    "simulators_of",
    "torus_pursuit",
]
