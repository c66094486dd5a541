"""Dataclasses as pytrees: what is static, what is dropped, and that no class passes for another."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from jatpo.pytree import pytree


def family(count: int) -> list[type]:
    """Classes with equal fields whose `act` gives their number."""

    def make(number: int) -> type:
        methods = {"__annotations__": {}, "act": lambda self: jnp.full(2, float(number))}
        return pytree(dataclasses.dataclass(frozen=True)(type("Member", (), methods)))

    return [make(number) for number in range(count)]


def test_structures_of_different_classes_differ():
    structures = [jax.tree.structure(cls()) for cls in family(20)]
    assert sum(a == b for a in structures for b in structures) == 20


@pytest.mark.slow
def test_jit_never_runs_the_program_of_another_class():
    """Of 300 classes 40 to 60 ran the program of another with `jax.tree_util.register_dataclass`."""
    act = jax.jit(lambda member: member.act())
    assert [float(act(cls())[0]) for cls in family(300)] == list(range(300))


def test_static_fields_fix_the_structure_and_dropped_ones_are_left_out():
    @dataclasses.dataclass(frozen=True)
    class Part:
        array: jax.Array
        size: int = dataclasses.field(metadata={"static": True})
        name: str = "default"

    pytree(Part, dropped=("name",))
    part = Part(jnp.ones(2), 3, "mine")
    leaves, structure = jax.tree_util.tree_flatten_with_path(part)
    assert [jax.tree_util.keystr(path) for path, _ in leaves] == [".array"]
    assert structure == jax.tree.structure(Part(jnp.zeros(2), 3, "other"))
    assert structure != jax.tree.structure(Part(jnp.ones(2), 4))
    again = jax.jit(lambda tree: tree)(part)
    assert (again.size, again.name) == (3, "default")
