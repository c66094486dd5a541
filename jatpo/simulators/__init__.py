"""Libraries of simulators: the protocol, tables as simulators, and filters for them."""

from jatpo.simulators.particle_filter import ParticleBelief, Particles
from jatpo.simulators.simulator_library import SimulatorLibrary
from jatpo.simulators.simulator_protocol import Simulator, fixed, simulator_class
from jatpo.simulators.table_filter import Exact, OnTable
from jatpo.simulators.tabular_simulator import TabularSimulator

__all__ = [
    "Exact",
    "OnTable",
    "ParticleBelief",
    "Particles",
    "Simulator",
    "SimulatorLibrary",
    "TabularSimulator",
    "fixed",
    "simulator_class",
]
