"""Cassandra's format read the slow way: a list of tokens, dense arrays, one assignment after the other."""

import re
from itertools import product
from types import SimpleNamespace

import numpy as np

WORDS = {"discount", "values", "states", "actions", "observations", "start", "T", "O", "R"}


def read(text):
    """P [A, X, X], O [A, X, Z], R [X, A], start [X], discount; probabilities as they stand, not checked."""
    text = re.sub(r"#.*", "", text).replace(":", " : ")
    tokens = text.split()
    statements, current = [], []
    for place, token in enumerate(tokens):
        if token in WORDS and tokens[place + 1] in (":", "include", "exclude"):
            current = []
            statements.append(current)
        current.append(token)
    model = SimpleNamespace(sign=1, start=None)
    for statement in statements:
        _head(model, statement)
    A, X, Z = model.actions, model.states, model.observations
    model.P, model.O, model.r = np.zeros((len(A), len(X), len(X))), np.zeros((len(A), len(X), len(Z))), None
    model.r = np.zeros((len(A), len(X), len(X), len(Z)))
    model.initial = _start(model)
    for statement in statements:
        if statement[0] in "TOR":
            _write(model, statement)
    model.R = model.sign * np.einsum("axy,ayz,axyz->xa", model.P, model.O, model.r)
    return model


def _head(model, statement):
    word, body = statement[0], statement[2:]
    if word == "discount":
        model.discount = float(body[0])
    elif word == "values":
        model.sign = 1 if body[0] == "reward" else -1
    elif word in ("states", "actions", "observations"):
        setattr(model, word, [str(i) for i in range(int(body[0]))] if body[0].isdigit() else body)
    elif word == "start":
        model.start = statement[1:]


def _find(names, token):
    if token == "*":
        return list(range(len(names)))
    return [names.index(token) if token in names else int(token)]


def _start(model):
    X = model.states
    if model.start is None or model.start[1:] == ["uniform"]:
        return np.full(len(X), 1 / len(X))
    if model.start[0] in ("include", "exclude"):
        chosen = np.zeros(len(X))
        for token in model.start[2:]:
            chosen[_find(X, token)] = 1
        chosen = chosen if model.start[0] == "include" else 1 - chosen
        return chosen / chosen.sum()
    body = model.start[1:]
    if len(body) == 1 and len(X) > 1:
        chosen = np.zeros(len(X))
        chosen[_find(X, body[0])] = 1
        return chosen
    return np.array([float(token) for token in body])


def _write(model, statement):
    axes = {"T": "actions states states", "O": "actions states observations"}
    axes = [
        getattr(model, name) for name in axes.get(statement[0], "actions states states observations").split()
    ]
    array = {"T": model.P, "O": model.O, "R": model.r}[statement[0]]
    index, place = [], 1
    while place < len(statement) and statement[place] == ":":
        index.append(_find(axes[len(index)], statement[place + 1]))
        place += 2
    body = " ".join(statement[place:])
    body = re.sub(r"([+-]) ", r"\1", body).split()
    rest = [range(len(axis)) for axis in axes[len(index) :]]
    shape = [len(part) for part in rest]
    if body[0] == "uniform":
        values = np.full(shape, 1 / shape[-1])
    elif body[0] == "identity":
        values = np.eye(shape[0])
    elif body[0] == "reset":
        values = model.initial
    else:
        values = np.array([float(token) for token in body]).reshape(shape)
    for where in product(*index):
        array[where] = values
