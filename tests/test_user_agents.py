"""Agents that users write: the registry's example, and that results of a changed agent are not taken for its own."""

import textwrap
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tiny_domain
from jatpo.errors import JatpoError
from jatpo.evaluate import mixture, registry, states
from jatpo.evaluate.agent import Agent
from jatpo.evaluate.fingerprint import fingerprint
from jatpo.evaluate.player import Player
from jatpo.evaluate.prepare import Session, choose_agents, prepare
from jatpo.evaluate.store import Store

HEAD = (
    "import jax\nimport jax.numpy as jnp\nimport numpy as np\nfrom jatpo.evaluate.registry import register\n"
)


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    """What is registered in a test is gone after it."""
    monkeypatch.setattr(registry, "_agents", dict(registry._agents))


@pytest.fixture(scope="module")
def prepared():
    with tiny_domain.registered() as name:
        return prepare(name, choose_agents(["random"]))


def written(text: str, **names) -> Agent:
    """The agent that a user's file registers."""
    space = {"__name__": "users_file", **names}
    exec(HEAD + textwrap.dedent(text), space)
    return next(value for value in space.values() if isinstance(value, Agent))


# ---------------------------------------------------------------- the example


def test_the_example_of_the_registry_plays(prepared):
    """It sees, knows and remembers nothing."""
    text = registry.__doc__ or ""
    start = text.index("    @register")
    agent = written(text[start : text.index("\n\n", start)])
    assert agent is registry.get("always-first")
    run = Session(0).run("x", agent, prepared.task, prepared.horizon, 20, ("actions",))
    assert not run.records["actions"].any()
    played = Session(0).run("x", agent, prepared.task, prepared.horizon, 20)
    np.testing.assert_array_equal(played.returns, run.returns)
    player = Player(agent, prepared.models)
    player.reset()
    assert player.act() == 0


def test_nothing_to_report_is_told(prepared):
    agent = written(
        """
        @register("reporter", sees="nothing", knows="nothing")
        class Reporter:
            def init(key, knowledge, seen): return ()
            def policy(key, knowledge, memory): return jnp.eye(knowledge.actions.shape[0])[0]
            def observe(knowledge, memory, action, seen): return memory
            def report(knowledge, memory): return {"one": jnp.float32(1)}
        """
    )
    with pytest.raises(JatpoError, match="nothing to report: leave its report out"):
        Session(0).run("x", agent, prepared.task, prepared.horizon, 2)


# ---------------------------------------------------------------- what is told apart

TEXT = """
SHARE = 0.5

def helper(values):
    return values * SHARE

def apart(values):
    return values - 1

@register("mine", sees="nothing", knows="nothing")
class Mine:
    def init(key, knowledge, seen): return ()
    def policy(key, knowledge, memory):
        "Evenly."
        return helper(jnp.ones(knowledge.actions.shape[0])) / jnp.float32(2)
    def observe(knowledge, memory, action, seen): return memory
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("jnp.float32(2)", "jnp.float32(3)"),
        ("jnp.ones(", "jnp.zeros("),
        ("values * SHARE", "values + SHARE"),
        ("SHARE = 0.5", "SHARE = 0.25"),
        ("def policy(key, knowledge, memory)", "def policy(key, knowledge, memory, more=1)"),
        ("return ()", "return (jnp.zeros(()),)"),
        ('sees="nothing"', 'sees="state"'),
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
    def half(keys, knowledge, memory):
        return 1 / 2

    def third(keys, knowledge, memory):
        return 1 / 3

    codes = {fingerprint(_agent(change(function)))["code"] for function in (half, third, half)}
    assert len(codes) == 2


def _agent(policy, parameters=()) -> Agent:
    return Agent(
        "a", "nothing", "nothing", states.RANDOM.init, policy, states.RANDOM.observe, parameters=parameters
    )


class Weights(NamedTuple):
    layers: tuple
    rate: float


def weights(at: int = 0, by: float = 0.0, rate: float = 0.5, shape=(40, 50)) -> Weights:
    layer = np.zeros(shape, np.float32)
    layer.flat[at] += by
    return Weights((jnp.asarray(layer), {"bias": np.ones(3)}), rate)


def test_every_number_of_the_parameters_counts():
    """Also one in the middle of a large array, which text would leave out, the shape and the type."""
    policy = states.RANDOM.policy
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
    found = [str(fingerprint(_agent(policy, parameters))) for parameters in different]
    assert len(set(found)) == len(found)
    assert str(fingerprint(_agent(policy, weights()))) == found[0]
    assert all("code" not in text for text in found)


def test_agents_of_jatpo_go_by_their_parameters_and_its_version():
    assert fingerprint(states.RANDOM) == {"sees": "nothing", "knows": "nothing", "parameters": "()"}
    found = fingerprint(mixture.ATPO.with_parameters(floor=1e-8))
    assert found["parameters"]["floor"] == 1e-8 and "code" not in found


# ---------------------------------------------------------------- results of a changed agent


def test_results_of_a_changed_agent_are_not_reused(prepared, tmp_path):
    def play(text: str):
        session = Session(0, Store(tmp_path / "r", "evaluate", {"seed": 0}))
        return session.run("x", written(text), prepared.task, prepared.horizon, 5)

    first = play(TEXT)
    np.testing.assert_array_equal(play(TEXT).returns, first.returns)
    before = {path: path.read_bytes() for path in (tmp_path / "r").rglob("*") if path.is_file()}
    for change in (("values * SHARE", "values * (SHARE + jnp.arange(4))"), ("SHARE = 0.5", "SHARE = 0.25")):
        with pytest.raises(
            JatpoError, match=r"of agent mine in x made otherwise \(code is \w+ there and \w+ here\)"
        ):
            play(TEXT.replace(*change))
    assert {path: path.read_bytes() for path in (tmp_path / "r").rglob("*") if path.is_file()} == before
