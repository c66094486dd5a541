"""Random files in Cassandra's format: all forms of all statements, with comments and line breaks anywhere."""

import numpy as np

NAMES = (
    "north",
    "s_1",
    "Left-2",
    "b",
    "very-long-name_of_something_that_takes_more_than_two_words_0",
    "x9",
    "Q",
)


class Author:
    """Writes random text; `rng` decides."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, options):
        return options[int(self.rng.integers(len(options)))]

    def file(self):
        """A syntactically right file; its rows need not sum to 1."""
        self.A, self.X, self.Z = (int(self.rng.integers(1, 5)) for _ in range(3))
        self.names = [self._names(size) for size in (self.A, self.X, self.Z)]
        items = [
            f"discount: {self.pick(['0.95', '1', '.5', '9e-1'])}",
            f"values: {self.pick(['reward', 'cost'])}",
        ]
        items += [
            self._items(*pair) for pair in zip(("actions", "states", "observations"), self.names, strict=True)
        ]
        if self.chance(0.8):
            items.append(self.start())
        self.rng.shuffle(items)
        statements = [self.statement() for _ in range(int(self.rng.integers(0, 25)))]
        return self.layout([*items, "T: * uniform", "O: * uniform", *statements])

    def _names(self, size):
        return list(self.rng.permutation(NAMES)[:size]) if self.chance(0.5) else [str(i) for i in range(size)]

    def _items(self, word, names):
        return f"{word}: {len(names)}" if names[0] == "0" else f"{word}: {' '.join(names)}"

    def index(self, axis, wild=True):
        if wild and self.chance(0.3):
            return "*"
        place = int(self.rng.integers(len(self.names[axis])))
        return str(place) if self.chance(0.3) else self.names[axis][place]

    def probability(self):
        return self.pick(["0", "1", "0.5", ".25", "1.", "2.5e-1", "0.0", "1E-1", "0.3333333333333333"])

    def number(self):
        return self.pick(["", "-", "+", "- "]) + self.pick(["0", "3", "0.5", "1e2", ".7", "12.25", "5."])

    def start(self):
        form = self.pick(["uniform", "state", "vector", "include", "exclude"])
        if form == "uniform":
            return "start: uniform"
        if form == "state" and self.X > 1:
            return f"start: {self.index(1, wild=False)}"
        if form == "include" or (form == "exclude" and self.X > 1):
            return f"start {form}: {self.index(1, wild=False)}"
        weights = self.rng.dirichlet(np.ones(self.X))
        return "start: " + " ".join(repr(float(weight)) for weight in weights)

    def statement(self):
        keyword = self.pick("TOR")
        axes = {"T": [0, 1, 1], "O": [0, 1, 2], "R": [0, 1, 1, 2]}[keyword]
        given = int(self.rng.integers(2 if keyword == "R" else 1, len(axes) + 1))
        head = f"{keyword}: " + " : ".join(self.index(axis) for axis in axes[:given])
        sizes = [len(self.names[axis]) for axis in axes[given:]]
        words = {("T", 1): ["uniform", "reset"], ("T", 2): ["uniform", "identity"], ("O", 1): ["uniform"]}
        choices = words.get((keyword, len(sizes)), ["uniform"] if keyword == "O" and sizes else [])
        if choices and self.chance(0.3):
            return f"{head} {self.pick(choices)}"
        draw = self.number if keyword == "R" else self.probability
        constant = draw() if self.chance(0.2) else None
        return " ".join([head, *(constant or draw() for _ in range(int(np.prod(sizes))))])

    def layout(self, statements):
        """The statements as text, with blanks, line breaks and comments where they may be."""
        blanks = [" ", " ", " ", "\t", "  ", "\n", "\r\n", " # T: 0 : 0 a comment\n", "\n\n"]
        lines = []
        for statement in statements:
            pieces = statement.replace(":", " : " if self.chance(0.5) else ": ").split(" ")
            lines.append(
                "".join(piece + (self.pick(blanks) if self.chance(0.3) else " ") for piece in pieces)
            )
        return "\n".join(lines) + self.pick(["", "\n", " # the end"])


def random_pomdp(seed, storage="auto"):
    """A random sparse model, with or without names."""
    from jatpo.model import POMDP

    rng = np.random.default_rng(seed)
    A, X, Z = (int(rng.integers(1, most)) for most in (4, 12, 6))

    def rows(*shape):
        weights = rng.gamma(0.5, size=shape) * (rng.random(shape) < 0.6)
        weights[..., 0] += 1e-2
        return weights / weights.sum(axis=-1, keepdims=True)

    names = {}
    if rng.random() < 0.5:
        names = {
            "states": [f"at {x},{x % 3}" for x in range(X)],
            "observations": [f"#.{z}" for z in range(Z)],
        }
    reward = rng.normal(size=(X, A)) if rng.random() < 0.5 else rng.integers(-1, 2, size=(X, A)).astype(float)
    return POMDP.from_dense(
        rows(A, X, X), rows(A, X, Z), reward, rows(X), rng.random(), storage=storage, **names
    )
