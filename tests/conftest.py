"""Strict settings for all tests, and what several test files share.

The settings are environment variables, set before jax is imported, so that they hold in this
process and in the commands that tests start: rank and dtype promotion are errors, compiled programs
are kept between runs. The CPU is used unless the caller chose another platform.

Most of the time of a test goes into compiling a program that then runs for a moment. So programs are compiled
without optimisation, which takes a third of the time, unless the caller chose XLA_FLAGS. `make slow` has none, and
runs the tests marked `bits` again: whether two programs give the same bits is a question to optimised ones.
"""

import gc
import os
import sys
import tempfile
from pathlib import Path

import hypothesis
import pytest

CACHE = Path(__file__).parent.parent / ".cache"

assert "jax" not in sys.modules, (
    "jax was imported before the tests' settings; disable the pytest plugin that did"
)
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")
os.environ.setdefault("NUMBA_CACHE_DIR", str(CACHE / "numba"))
os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"
os.environ["JAX_NUMPY_DTYPE_PROMOTION"] = "strict"

# Solutions are never kept in the user's own cache: not by tests, not by fixtures of whole files.
_place = tempfile.TemporaryDirectory(prefix="jatpo-tests-")
os.environ["XDG_CACHE_HOME"] = _place.name
os.environ.pop("JATPO_CACHE", None)

# The same examples on every run and machine; failing ones print how to rerun them.
hypothesis.configuration.set_hypothesis_home_dir(CACHE / "hypothesis")
hypothesis.settings.register_profile("jatpo", derandomize=True, deadline=None, database=None, print_blob=True)
hypothesis.settings.load_profile("jatpo")


# Workers take whole files in this order: with the long ones first, none is left with a long one at the end.
LONG = ("test_docs", "test_anytime", "test_agents", "test_learn", "test_perseus", "test_rollout")
SHORT = ("test_domains_situations", "test_files", "test_cli", "test_validation", "test_render", "test_model")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, short ones last."""
    items.sort(key=lambda item: item.path.name.startswith(SHORT) - item.path.name.startswith(LONG))


PROGRAMS = 25_000  # mappings of memory; Linux ends a process that asks for more than 65,530
EVERY = 10  # tests


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Drop compiled programs before there are too many for one process: each takes several mappings of memory."""
    item.config.stash[DONE] = item.config.stash.get(DONE, 0) + 1
    if item.config.stash[DONE] % EVERY == 0 and "jax" in sys.modules and _mappings() > PROGRAMS:
        import jax

        jax.clear_caches()
        gc.collect()


DONE = pytest.StashKey[int]()


def _mappings() -> int:
    """How many mappings of memory this process has; 0 where the system does not say."""
    maps = Path("/proc/self/maps")
    return maps.read_bytes().count(b"\n") if maps.exists() else 0


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path_factory):
    """Solutions of a test are kept in a directory of its own, not in the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def x64():
    """Double precision for the duration of one test."""
    import jax

    with jax.enable_x64(True):
        yield


@pytest.fixture
def registries():
    """What a test registers is gone after it."""
    from jatpo.domains import DOMAINS
    from jatpo.evaluate.agents.catalogue import AGENTS
    from jatpo.simulators import SIMULATORS

    with DOMAINS.restored(), AGENTS.restored(), SIMULATORS.restored():
        yield


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    """A function that runs a command on a small domain: (exit code, standard output, standard error)."""
    import tiny_domain
    from jatpo.cli.main import run

    monkeypatch.chdir(tmp_path)
    tiny_domain.stand_in(monkeypatch)

    def calling(*arguments):
        code = run([str(part) for part in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    with tiny_domain.registered():
        yield calling
