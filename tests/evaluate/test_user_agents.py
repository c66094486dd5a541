"""Agents that users write: the registry's example, and that results of a changed agent are not taken for its own."""

import textwrap
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tiny_domain
from jatpo.errors import JatpoError
from jatpo.evaluate.agents import ATPO, Random, agent_class, catalogue
from jatpo.evaluate.agents.catalogue import choose_agents
from jatpo.evaluate.agents.protocol import Agent
from jatpo.evaluate.case import Case, Stage
from jatpo.evaluate.fingerprint import fingerprint
from jatpo.evaluate.player import Player
from jatpo.evaluate.results_store import Store
from jatpo.evaluate.session import Session
from jatpo.evaluate.solved import load_solved

HEAD = "import jax\nimport jax.numpy as jnp\nimport numpy as np\nfrom jatpo.evaluate.agents import register\n"


pytestmark = pytest.mark.usefixtures("registries")


@pytest.fixture(scope="module")
def case():
    with tiny_domain.registered() as name:
        agents = choose_agents(["random"])
        return Case(Stage(name), load_solved(name, agents), tuple(agents), 20)


def played(case, agent, record=(), store=None):
    """The trials of an agent."""
    (found,) = Session(0, store).play([case.cell(agent, part="x", record=record)])
    return found.trials


def written(text: str, **names) -> Agent:
    """The agent that a user's file registers."""
    before = {catalogue.get(name) for name in catalogue.names()}
    exec(HEAD + textwrap.dedent(text), {"__name__": "users_file", **names})
    (found,) = {catalogue.get(name) for name in catalogue.names()} - before
    return found


# ---------------------------------------------------------------- the example


def test_the_example_of_the_registry_plays(case):
    """It sees, knows and remembers nothing."""
    text = catalogue.__doc__ or ""
    start = text.index("    @register")
    agent = written(text[start : text.index("\n\n", start)])
    assert agent is catalogue.get("always-first")
    run = played(case, agent, ("actions",))
    assert not run.records["actions"].any()
    np.testing.assert_array_equal(played(case, agent).returns, run.returns)
    player = Player(agent, case.library)
    player.reset()
    assert player.act() == 0


def test_nothing_to_report_is_told(case):
    agent = written(
        """
        @register
        class Reporter:
            name, sees, knows = "reporter", "nothing", "nothing"
            def init(self, key, context, seen): return ()
            def act(self, key, context, memory): return jnp.eye(context.actions.shape[0])[0]
            def update(self, key, context, memory, action, seen): return memory
            def report(self, context, memory): return {"one": jnp.float32(1)}
        """
    )
    with pytest.raises(JatpoError, match="reporter"):
        played(case, agent)


# ---------------------------------------------------------------- what is distinguished

TEXT = """
SHARE = 0.5

def helper(values):
    return values * SHARE

def apart(values):
    return values - 1

@register
class Mine:
    name, sees, knows = "mine", "nothing", "nothing"
    def init(self, key, context, seen): return ()
    def act(self, key, context, memory):
        "Evenly."
        return helper(jnp.ones(context.actions.shape[0])) / jnp.float32(2)
    def update(self, key, context, memory, action, seen): return memory
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("jnp.float32(2)", "jnp.float32(3)"),
        ("jnp.ones(", "jnp.zeros("),
        ("values * SHARE", "values + SHARE"),
        ("SHARE = 0.5", "SHARE = 0.25"),
        ("def act(self, key, context, memory)", "def act(self, key, context, memory, more=1)"),
        ("return ()", "return (jnp.zeros(()),)"),
        ('"mine", "nothing"', '"mine", "state"'),
    ],
)
def test_a_change_of_the_program_shows(old, new):
    assert TEXT.count(old) == 1
    assert fingerprint(written(TEXT)) != fingerprint(written(TEXT.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new"),
    [("", ""), ("Evenly.", "By halves."), ("values - 1", "values - 2"), ("def helper", "# So.\ndef helper")],
)
def test_what_makes_no_difference_does_not_show(old, new):
    """A comment, words about a function, a function that is not used."""
    assert fingerprint(written(TEXT)) == fingerprint(written(TEXT.replace(old, new, 1)))


@pytest.mark.parametrize(
    "change",
    [
        lambda function: jax.jit(function),
        lambda function: partial(function),
        lambda function: staticmethod(function).__func__,
    ],
)
def test_code_behind_a_decorator_is_found(change):
    def half(self, keys, context, memory):
        return 1 / 2

    def third(self, keys, context, memory):
        return 1 / 3

    codes = {fingerprint(_agent(change(function)))["code"] for function in (half, third, half)}
    assert len(codes) == 2


def _agent(act) -> Agent:
    return agent_class(type("Acting", (Random,), {"act": act, "__module__": "users_file"}))()


@agent_class
class Weighed(Random):
    weights: Any = ()


class Weights(NamedTuple):
    layers: tuple
    rate: float


def weights(at: int = 0, by: float = 0.0, rate: float = 0.5, shape=(40, 50)) -> Weights:
    layer = np.zeros(shape, np.float32)
    layer.flat[at] += by
    return Weights((jnp.asarray(layer), {"bias": np.ones(3)}), rate)


def test_every_number_of_the_parameters_counts():
    """Also one in the middle of a large array, which text would leave out, the shape and the type."""
    different = [
        weights(),
        weights(1000, 1e-6),
        weights(1001, 1e-6),
        weights(rate=0.25),
        weights(shape=(50, 40)),
    ]
    different += [
        weights()._replace(layers=(jnp.zeros((40, 50), jnp.int32), {"bias": np.ones(3)})),
        (),
        (0.5,),
    ]
    found = [str(fingerprint(Weighed(weights=parameters))) for parameters in different]
    assert len(set(found)) == len(found)
    assert str(fingerprint(Weighed(weights=weights()))) == found[0]


def test_agents_of_jatpo_go_by_their_parameters_and_its_version():
    assert fingerprint(Random()) == {"sees": "nothing", "knows": "nothing", "parameters": {}}
    found = fingerprint(ATPO(floor=1e-8))
    assert found["parameters"]["floor"] == 1e-8 and "code" not in found


# ---------------------------------------------------------------- results of a changed agent


def test_results_of_a_changed_agent_are_not_reused(case, tmp_path):
    def play(text: str):
        return played(case, written(text), store=Store(tmp_path / "r", "evaluate", {"seed": 0}))

    first = play(TEXT)
    np.testing.assert_array_equal(play(TEXT).returns, first.returns)
    chunks = tmp_path / "r" / "chunks" / "x"
    before = (chunks / "mine" / "000000.npz").read_bytes()
    lean = "values * SHARE * jnp.array([2, 0, 1, 1], jnp.float32)"
    changes = (("values * SHARE", lean), ("/ jnp.float32(2)", "* jnp.float32(0.5)"))
    for number, change in enumerate(changes, 1):
        other = play(TEXT.replace(*change))
        assert np.array_equal(other.returns, first.returns) == (number == 2)
        assert (chunks / f"mine.before-{number}").is_dir()
    assert (chunks / "mine.before-1" / "000000.npz").read_bytes() == before


def test_a_users_file_cannot_replace_a_built_in_agent(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        f"{HEAD}@register\n"
        "class Mine:\n"
        "    name, sees, knows = 'ATPO', 'nothing', 'nothing'\n"
        "    def init(self, key, context, seen): return ()\n"
        "    def act(self, key, context, memory): return (context.actions == 1) * 1.0\n"
        "    def update(self, key, context, memory, action, seen): return memory\n"
    )
    ours = catalogue.get("atpo")
    with pytest.raises(JatpoError, match=f"{file}.*'ATPO'.*'atpo'"):
        catalogue.load(file)
    assert catalogue.get("atpo") is ours
