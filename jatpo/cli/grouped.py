"""Options that several commands have, declared once and put into a command in the place of one parameter."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any


def grouped(
    function: Callable[..., None],
    parameter: str,
    options: Mapping[str, tuple[Any, Any]],
    gather: Callable[..., Any],
) -> Callable[..., None]:
    """`function` as a command that has `options` (annotation, default) where it has `parameter`.

    `function` gets `gather(**values)` of the options' values as that parameter.
    """
    parameters: list[inspect.Parameter] = []
    for each in inspect.signature(function, eval_str=True).parameters.values():
        if each.name != parameter:
            parameters.append(each)
            continue
        parameters += [
            each.replace(name=name, default=default, annotation=annotation)
            for name, (annotation, default) in options.items()
        ]

    @functools.wraps(function)
    def command(**values: Any) -> None:
        chosen = {name: values.pop(name) for name in options}
        function(**values, **{parameter: gather(**chosen)})

    del command.__wrapped__
    vars(command)["__signature__"] = inspect.Signature(parameters)
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command
