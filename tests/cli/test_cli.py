"""The command line as a user meets it: help, version, errors and exit codes."""

import errno
import os
import signal
import subprocess
import sys
import types
from importlib.machinery import ModuleSpec
from typing import Annotated

import pytest
import typer

from jatpo.cli import app
from jatpo.cli.described import described_commands
from jatpo.cli.main import run
from jatpo.errors import JatpoError
from jatpo.version import __version__

COMMAND = [sys.executable, "-m", "jatpo"]


def jatpo(*arguments, **options):
    """Run the command in a process of its own."""
    environment = {**os.environ, "COLUMNS": "80"}
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, env=environment, **options)


@pytest.fixture
def commands(monkeypatch):
    """Puts functions in the place of the real commands; call it with ``name=function``."""

    def install(**functions):
        module = types.ModuleType("commands_of_a_test")
        module.__spec__ = ModuleSpec(module.__name__, None)
        vars(module).update(functions)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        table = [app.Command("Models", name, module.__name__, name) for name in functions]
        monkeypatch.setattr(app, "COMMANDS", tuple(table))

    return install


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_is_a_table_of_contents(arguments):
    result = jatpo(*arguments)
    assert result.returncode == 0
    assert result.stderr == ""
    for command in app.COMMANDS:
        assert f" {command.name} " in result.stdout
        assert f"\n{command.panel}:\n" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_help_needs_neither_rich_nor_pydantic():
    """They take longer to import than all the rest."""
    script = (
        "import sys; from jatpo.cli.main import run;"
        "assert run([]) == run(['--help']) == run(['solve', '-h']) == run(['solve', 'mit', '--help']) == 0;"
        "sys.exit(' '.join({'jax', 'numpy', 'rich', 'pydantic'} & set(sys.modules)) or 0)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("words", [["slove", "--help"], ["bench", "slove", "-h"]])
def test_help_on_an_unknown_command_names_the_nearest(words, capsys):
    assert run(words) == 2
    assert "did you mean 'solve'?" in capsys.readouterr().err


@pytest.mark.parametrize("command", app.COMMANDS, ids=lambda command: command.name)
def test_every_command_explains_itself(command, capsys):
    assert command.panel in app.PANELS
    assert run([command.name, "--help"]) == 0
    assert f"jatpo {command.name}" in capsys.readouterr().out


def test_panels_come_in_their_order(commands, monkeypatch, capsys):
    def anything():
        """Do it."""

    commands(first=anything, second=anything)
    late, early = app.COMMANDS
    monkeypatch.setattr(
        app, "COMMANDS", (late._replace(panel="Development"), early._replace(panel="Solving"))
    )
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    assert text.index("Solving") < text.index("second") < text.index("Development") < text.index("first")


def test_version():
    result = jatpo("--version")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"jatpo {__version__}\n", "")


# prints the help on every experiment, as described and by the command itself, and a line between them
BOTH_HELPS = """
from jatpo.cli import experiments
from jatpo.cli.described import described_commands
from jatpo.cli.main import run
names = sorted(described_commands())
for kind in ("described", "itself"):
    for name in ("", *names):
        assert run(["experiment", *([name] if name else []), "--help"]) == 0
    experiments.described_commands = dict
    print("=" * 20)
"""


@pytest.mark.parametrize("width", ["60", "100"])
def test_help_on_an_experiment_is_that_of_the_command_itself(width):
    # in a process of its own: other tests enter solvers and experiments, which help then lists
    environment = {**os.environ, "COLUMNS": width}
    result = subprocess.run(
        [sys.executable, "-c", BOTH_HELPS], capture_output=True, text=True, env=environment
    )
    assert result.returncode == 0, result.stderr
    described, itself, rest = result.stdout.split("=" * 20 + "\n")
    assert described == itself and not rest
    assert all(name in described for name in described_commands())


def test_help_and_errors_need_neither_jax_nor_matplotlib():
    script = (
        "import sys; from jatpo.cli.main import run; import jatpo.domains;"
        "assert run(['--help']) == 0 and run(['nothing']) == 2 and run(['--nothing']) == 2;"
        "assert run(['experiment']) == run(['experiment', 'beyond', '--help']) == 0;"
        "sys.exit(' '.join({'jax', 'jaxlib', 'matplotlib', 'orbax', 'optax'} & set(sys.modules)) or 0)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["domain"], "no command is called 'domain'; did you mean 'domains'?"),
        (["--verison"], "'jatpo' has no option '--verison'; did you mean '--version'?"),
        (["domains", "--jsno"], "'jatpo domains' has no option '--jsno'; did you mean '--json'?"),
        (["domains", "-q"], "'jatpo domains' has no option '-q'; 'jatpo domains --help' lists them"),
    ],
)
def test_unknown_names_get_the_nearest(arguments, message):
    result = jatpo(*arguments)
    assert (result.returncode, result.stdout, result.stderr) == (2, "", f"jatpo: {message}\n")


def test_a_name_like_no_other_gets_the_list(commands, capsys):
    commands(solve=lambda: None, watch=lambda: None)
    assert run(["xyzzy"]) == 2
    assert capsys.readouterr().err == "jatpo: no command is called 'xyzzy'; choose from solve, watch\n"


def test_commands_below_a_command(commands, capsys):
    bench = typer.Typer(help="Measure.")
    bench.command("solve")(lambda: print("measured"))
    bench.command("evaluate")(lambda: None)
    commands(bench=bench)
    assert run(["bench", "solve"]) == 0
    assert capsys.readouterr().out == "measured\n"
    assert run(["bench", "slove"]) == 2
    expected = "jatpo: no command of 'jatpo bench' is called 'slove'; did you mean 'solve'?\n"
    assert capsys.readouterr().err == expected


def test_only_the_named_command_is_imported(commands, monkeypatch, capsys):
    commands(works=lambda: print("fine"))
    broken = app.Command("Models", "broken", "jatpo.cli.no_such_module", "broken")
    monkeypatch.setattr(app, "COMMANDS", (*app.COMMANDS, broken))
    assert run(["works"]) == 0
    assert capsys.readouterr().out == "fine\n"
    assert run(["--help"]) == 0  # and a module that is not installed does not spoil the help
    assert "works" in capsys.readouterr().out


def test_wrong_values_are_one_line(commands, capsys):
    def solve(name: str, trials: Annotated[int, typer.Option(min=1)] = 1):
        """Solve."""

    commands(solve=solve)
    for arguments in (
        ["solve"],
        ["solve", "a", "b"],
        ["solve", "a", "--trials", "x"],
        ["solve", "a", "--trials"],
    ):
        assert run(arguments) == 2
        assert_one_line(capsys, "'jatpo solve --help' explains")
    assert run(["solve", "a", "--trials", "0"]) == 2
    assert_one_line(capsys, "'--trials'")
    assert run(["solve", "a", "--trials", "9" * 30]) == 2
    assert_one_line(capsys, "--trials must be at most 9223372036854775807, got 999")
    assert run(["s" * 50_000]) == 2
    assert len(capsys.readouterr().err) < 1000


def assert_one_line(capsys, *parts):
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("jatpo: ")
    assert err.count("\n") == 1
    for part in parts:
        assert part in err


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (JatpoError("row 3\n sums to 0.93"), 2, "row 3 sums to 0.93"),
        (KeyboardInterrupt(), 130, "interrupted; run the same command again to continue"),
        (
            OSError(errno.ENOSPC, "No space left on device", "out/a"),
            2,
            "out/a: no space left on device; free some space and run the same command again",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "out"),
            2,
            "out: permission denied; choose another place or change its permissions",
        ),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "m"),
            2,
            "m: no such file or directory",
        ),
        (OSError("odd"), 2, "odd"),
        (MemoryError(), 2, "out of memory; use blocked storage, fewer models at once or smaller batches"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_failures_are_one_line_and_a_code(commands, capsys, error, code, message):
    def fail():
        print("so far")
        raise error

    commands(fail=fail)
    assert run(["fail"]) == code
    assert capsys.readouterr() == ("so far\n", f"jatpo: {message}\n")


def test_compiled_programs_are_kept_unless_told_otherwise(commands, monkeypatch, tmp_path):
    commands(nothing=lambda: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert run(["nothing"]) == 0
    assert not os.environ["JAX_COMPILATION_CACHE_DIR"].startswith(str(tmp_path))  # the tests have their own
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    assert run(["nothing"]) == 0
    assert os.environ["JAX_COMPILATION_CACHE_DIR"].startswith(str(tmp_path / "jatpo"))


INTERRUPTIBLE = """
import signal, sys, time, types
from importlib.machinery import ModuleSpec
from jatpo.cli import app, main

def wait():
    print("started", flush=True)
    time.sleep(60)

module = types.ModuleType("waiting")
module.wait, module.__spec__ = wait, ModuleSpec("waiting", None)
sys.modules["waiting"] = module
app.COMMANDS = (app.Command("Models", "wait", "waiting", "wait"),)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
main.main(["wait"])
"""


def test_ctrl_c_is_one_line():
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "jatpo: interrupted; run the same command again to continue\n"
        assert process.wait(timeout=10) == 130


def test_a_command_chooses_its_own_code(commands):
    def leave():
        raise typer.Exit(3)

    commands(leave=leave)
    assert run(["leave"]) == 3


def test_a_defect_keeps_its_traceback(commands):
    def fail():
        raise RuntimeError("a defect")

    commands(fail=fail)
    with pytest.raises(RuntimeError, match="a defect"):
        run(["fail"])


def test_a_reader_that_goes_away_is_no_error():
    read, write = os.pipe()
    os.close(read)
    try:
        result = subprocess.run([*COMMAND, "--help"], stdout=write, stderr=subprocess.PIPE, text=True)
    finally:
        os.close(write)
    assert result.stderr == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("option", ["--help", "--version"])
def test_a_full_disk_is_one_line(option):
    with open("/dev/full", "w") as full:
        result = subprocess.run([*COMMAND, option], stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 2
    assert result.stderr == "jatpo: no space left on device; free some space and run the same command again\n"
