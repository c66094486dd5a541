"""Sweeps of fits: every combination once, the same fits by an engine, the best one chosen."""

import pickle

import jax
import numpy as np
import pytest

from jatpo.engine import Answer
from jatpo.errors import JatpoError
from jatpo.evaluate import agents
from jatpo.files import load_tables
from jatpo.learn import sweep as sweeps
from jatpo.learn.fitting import FitSettings
from jatpo.learn.simulation import changed, simulate


class Elsewhere:
    """An engine that computes what has travelled as bytes, the last unit first."""

    common_files = False

    def share(self, value):
        return value

    def run(self, units):
        for number, unit in reversed(list(enumerate(units))):
            function, arguments = pickle.loads(pickle.dumps((unit.function, unit.arguments)))
            yield Answer(number, pickle.loads(pickle.dumps(function(*arguments))), "there")

    def figures(self):
        return {"workers": 1}


@pytest.fixture(scope="module")
def given():
    library = load_tables("abandoned-power-plant", rules="as_run")
    histories = simulate(jax.random.key(0), agents.Random(), changed(library, None, 0.6), {}, 12, 40)
    return sweeps.Given(library, histories, "noise", settings=FitSettings(steps=10))


def test_combinations_are_all_there():
    found = sweeps.combinations(["trust=0,1", "by=state,features", "steps=5"])
    assert len(found) == 4
    assert {"trust": 1.0, "by": "state", "steps": 5} in found
    assert sweeps.combinations([]) == [{}]
    for word, message in (("rat=1", "did you mean 'rate'"), ("rate=x", "rate=1,10"), ("model=1.5", "model")):
        with pytest.raises(JatpoError, match=message):
            sweeps.combinations([word])


def test_a_sweep_finds_the_same_fits_here_and_elsewhere(given):
    options = sweeps.combinations(["rate=0.001,0.1"])
    here = sweeps.sweep(given, options)
    there = sweeps.sweep(given, options, engine=Elsewhere())
    for mine, other in zip(here, there, strict=True):
        assert mine.options == other.options
        jax.tree.map(np.testing.assert_array_equal, mine.fitted.params, other.fitted.params)
        assert mine.fitted.curve == other.fitted.curve
    assert here[0].fitted.held_out != here[1].fitted.held_out
    assert sweeps.best_of(here).options == {"rate": 0.1}
    (alone,) = sweeps.sweep(given._replace(settings=FitSettings(steps=10, rate=0.001)), [{}])
    assert alone.fitted.held_out == here[0].fitted.held_out
