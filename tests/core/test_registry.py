"""Names, built-in names that nobody can replace, and the loader of users' files."""

import pytest

import jatpo
import jatpo.simulators
from jatpo import registry
from jatpo.errors import JatpoError
from jatpo.files import sources  # noqa: F401 - from here on both share their names
from jatpo.registry import Registry, load_extension

THINGS: Registry = Registry("thing")
THINGS.add("built-in", 1)
THINGS.protect()


@pytest.fixture(autouse=True)
def things(monkeypatch):
    """The registry, reached by extensions through this module; left as it was."""
    monkeypatch.setattr(registry, "shared_by_a_test", THINGS, raising=False)
    with THINGS.restored():
        yield THINGS


@pytest.fixture
def write(tmp_path):
    def extension(text, name="mine.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"from jatpo.registry import shared_by_a_test as things\n{text}\n")
        return path

    return extension


def test_names_are_found_in_any_spelling(things):
    things.add("Own_One", 2)
    assert things.get("own-one") == things.get("OWN_ONE") == 2
    assert things.names() == ("built-in", "Own_One")
    things.remove("own-one")
    assert things.names() == ("built-in",)


def test_an_unknown_name_gets_a_hint(things):
    with pytest.raises(JatpoError, match=r"thing.*'bult-in'.*'built-in'"):
        things.get("bult-in")


@pytest.mark.parametrize("name", ["", "a b", "a/b", " a"])
def test_names_that_cannot_be_typed_are_refused(things, name):
    with pytest.raises(JatpoError, match=f"'{name}'"):
        things.add(name, 0)


@pytest.mark.parametrize("name", ["built-in", "BUILT_IN"])
def test_a_built_in_name_cannot_be_replaced(things, write, name):
    with pytest.raises(JatpoError, match=f"'{name}'.*'built-in'"):
        things.add(name, 2)
    path = write(f"things.add('{name}', 2)")
    with pytest.raises(JatpoError, match=f"{path}.*'{name}'.*'built-in'"):
        load_extension(path)
    assert things.get("built-in") == 1


def test_a_file_may_enter_its_own_name_again_and_no_other_file_may(things, write):
    path = write("things.add('own', 2)")
    assert things.load(path) == ("own",)
    path.write_text(path.read_text().replace("2", "3"))
    assert things.load(path) == ("own",)
    assert things.get("own") == 3
    other = write("things.add('own', 4)", "other.py")
    with pytest.raises(JatpoError, match=f"{other}.*'own'.*{path}"):
        things.load(other)
    things.add("own", 5)  # a session may
    assert things.get("own") == 5


@pytest.mark.parametrize("variable", registry.VARIABLES)
def test_extensions_in_the_environment_are_loaded_once(things, write, monkeypatch, capsys, variable):
    path = write("things.add('first', 1)\nprint('loaded')")
    more = write("assert 'first' in things.names()\nthings.add('second', 2)", "more.py")
    monkeypatch.setenv(variable, f"{path}::{more}")
    assert things.names() == ("built-in", "first", "second")
    assert things.get("second") == 2
    assert capsys.readouterr().out == "loaded\n"


def test_the_same_file_under_two_names_is_loaded_once(things, write, monkeypatch, capsys, tmp_path):
    path = write("print('loaded')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JATPO_EXTENSIONS", str(path))
    monkeypatch.setenv("JATPO_AGENTS", "./mine.py")
    things.names(), things.get("built-in")
    assert capsys.readouterr().out == "loaded\n"


def test_two_files_of_the_same_name_are_two_modules(things, write):
    assert things.load(write("things.add('one', 1)", "a/same.py")) == ("one",)
    assert things.load(write("things.add('two', 2)", "b/same.py")) == ("two",)


@pytest.mark.parametrize(
    ("text", "reason"),
    [("1 / 0", "ZeroDivisionError"), ("import no_such_module_at_all", "no_such_module_at_all")],
)
def test_a_file_that_fails_is_named_each_time(things, write, monkeypatch, text, reason):
    path = write(text)
    monkeypatch.setenv("JATPO_EXTENSIONS", str(path))
    for _ in range(2):
        with pytest.raises(JatpoError, match=f"{path}.*{reason}"):
            things.names()


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(JatpoError, match=r"none\.py"):
        load_extension(tmp_path / "none.py")
    with pytest.raises(JatpoError, match="no_such_package"):
        load_extension("no_such_package.agents")


def test_a_module_is_an_extension_too(things, write, monkeypatch, tmp_path):
    write("things.add('by-module', 1)", "some_module_of_a_test.py")
    monkeypatch.syspath_prepend(tmp_path)
    assert things.load("some_module_of_a_test") == ("by-module",)


def test_two_kinds_that_share_their_names_refuse_each_others():
    first: Registry = Registry("domain")
    second: Registry = Registry("simulator domain")
    first.share_names(second)
    first.add("doors", 1)
    second.add("rooms", 2)
    with pytest.raises(JatpoError, match="simulator domain 'Doors', but 'doors' is the name of a domain"):
        second.add("Doors", 3)
    with pytest.raises(JatpoError, match="domain 'rooms', but 'rooms' is the name of a simulator domain"):
        first.add("rooms", 4)


def test_a_domain_and_a_library_of_simulators_cannot_have_one_name(registries):
    with pytest.raises(JatpoError, match="'torus-pursuit' is the name of a simulator domain"):
        jatpo.domains.register("torus-pursuit")(lambda model: None)
    with pytest.raises(JatpoError, match="'gridworld' is the name of a domain"):
        jatpo.simulators.register("gridworld")(lambda: None)
