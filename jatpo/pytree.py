"""Frozen dataclasses as pytrees whose structures differ between classes.

`jax.tree_util.register_dataclass` makes structures that compare equal for any two classes with the same static fields
(seen in jaxlib 0.10.2), and `jax.jit` keys its programs by structure: now and then a call with one class runs the
program of another. Structures of nodes registered here compare by class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from typing import Any, TypeVar

import jax

Class = TypeVar("Class", bound=type)


def pytree(cls: Class, *, dropped: Collection[str] = ()) -> Class:
    """Register a dataclass as a pytree and return it.

    Fields with metadata {"static": True} are part of the structure; `dropped` fields are left out and have their
    defaults in a tree that was put together again.
    """
    fields = [field for field in dataclasses.fields(cls) if field.name not in dropped]
    static = tuple(field.name for field in fields if field.metadata.get("static"))
    traced = tuple(field.name for field in fields if field.name not in static)
    keys = tuple(jax.tree_util.GetAttrKey(name) for name in traced)

    def flatten(node: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return tuple(getattr(node, name) for name in traced), tuple(getattr(node, name) for name in static)

    def flatten_with_keys(node: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        children, fixed = flatten(node)
        return tuple(zip(keys, children, strict=True)), fixed

    def unflatten(fixed: tuple[Any, ...], children: Iterable[Any]) -> Any:
        return cls(**dict(zip(traced, children, strict=True)), **dict(zip(static, fixed, strict=True)))

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls
