"""Solvers for POMDPs: alpha vectors, point-based value iteration, bounds."""
