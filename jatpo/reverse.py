"""Refuse forward mode, or any gradient, with a sentence where JAX's own message does not say what to do.

`jax.jvp`, `jax.jacfwd` and `jax.linearize` of a function with a custom backward pass fail with a message that does not
say what to do. `reverse_only` marks the arguments of such a function: its tangent may be transposed, never evaluated.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

SENTENCE = (
    "forward-mode differentiation (jax.jvp, jax.jacfwd) does not pass the belief filter: "
    "use reverse mode (jax.grad, jax.jacrev, jax.vjp), also for second derivatives"
)

_tangent_p = Primitive("reverse_only_tangent")


@jax.custom_jvp
def _marked(array: jax.Array) -> jax.Array:
    return array


@_marked.defjvp
def _mark(primals: tuple, tangents: tuple) -> tuple[jax.Array, jax.Array]:
    return primals[0], _tangent_p.bind(tangents[0])


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise TypeError(SENTENCE)


_tangent_p.def_impl(_refuse)
_tangent_p.def_abstract_eval(lambda aval: aval)
mlir.register_lowering(_tangent_p, _refuse)
ad.deflinear2(_tangent_p, lambda cotangent, _: [cotangent])
batching.primitive_batchers[_tangent_p] = lambda args, axes: (_tangent_p.bind(*args), axes[0])


def reverse_only(tree: Any) -> Any:
    """`tree`, whose floating arrays refuse forward mode."""

    def mark(leaf: Any) -> Any:
        return _marked(leaf) if jnp.issubdtype(jnp.result_type(leaf), jnp.floating) else leaf

    return jax.tree.map(mark, tree)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _constant(array: jax.Array, sentence: str) -> jax.Array:
    del sentence
    return array


@_constant.defjvp
def _refuse_all(sentence: str, *_: Any) -> NoReturn:
    raise TypeError(sentence)


def no_gradient(tree: Any, sentence: str) -> Any:
    """`tree`, whose floating arrays refuse to be differentiated, in either mode, with `sentence`."""

    def mark(leaf: Any) -> Any:
        return _constant(leaf, sentence) if jnp.issubdtype(jnp.result_type(leaf), jnp.floating) else leaf

    return jax.tree.map(mark, tree)
