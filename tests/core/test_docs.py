"""The tutorial and the pages on environments, simulators and gradients, typed in as they stand.

A block that begins with a comment `# name` is a file. Other `sh` and `python` blocks are run one after the
other in an empty directory, and any other `text` block is what the block before it prints, to the letter. A
command whose output begins with `jatpo: ` has to fail, all others have to work.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from typer.core import TyperGroup

import tiny_domain
from jatpo.cli.app import build
from jatpo.cli.main import run

DOCS = Path(__file__).parent.parent.parent / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = sorted(str(page.relative_to(DOCS)) for page in [*DOCS.rglob("*.md"), DOCS / "../README.md"])
COMMAND = re.compile(r"(?:[A-Z_]+=\S+ |srun (?:--\S+ \d+ )*|time )*jatpo (.+?)(?:  .*|[&>|].*)?$")
FILE = re.compile(r"# (\S+\.\w+)\n")


def blocks_of(name):
    """The blocks of a document as (kind, text): file, sh, python or text."""
    found = BLOCK.findall((DOCS / name).read_text())
    return [("file" if FILE.match(text) else language, text) for language, text in found]


@pytest.fixture
def type_in(tmp_path, monkeypatch, capsys, registries):
    """A function that types in a document and returns how many blocks of each kind there were."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JATPO_CACHE", raising=False)

    def follow(name, old="", new=""):
        """Types in the document `name`, perhaps with a number changed."""
        blocks, names = blocks_of(name), {"__name__": "__main__"}
        assert old in "".join(text for _, text in blocks)
        for place, (kind, text) in enumerate(blocks):
            if kind == "text":
                printed = capsys.readouterr()
                assert printed.out + printed.err == text
                continue
            capsys.readouterr()
            if kind == "file":
                write(Path(FILE.match(text)[1]), text.replace(old, new))
            elif kind == "python":
                exec(compile(text, name, "exec"), names)
            else:
                assert kind == "sh", f"{name} has a block of {kind}, which no test runs"
                fails = blocks[place + 1 :][:1] and blocks[place + 1][1].startswith("jatpo: ")
                for line in text.splitlines():
                    command(line, 2 if fails else 0, monkeypatch)
        return Counter(kind for kind, _ in blocks)

    return follow


def means():
    """The mean return of every agent in the results."""
    return {row["agent"]: row["mean"] for row in json.loads(Path("results/summary.json").read_text())}


def write(file, text):
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)


def command(line, code, monkeypatch):
    """Run one command line, perhaps with variables before it."""
    words = shlex.split(line)
    with monkeypatch.context() as patch:
        while "=" in words[0]:
            patch.setenv(*words.pop(0).split("=", 1))
        if words[0] == "jatpo":
            assert run(words[1:]) == code
        else:
            assert words[0] == "python", f"no test can run '{line}'"
            # As it is for users: the strictness of the tests is nothing for optax.
            environment = {**os.environ, "JAX_NUMPY_DTYPE_PROMOTION": "standard"}
            subprocess.run([sys.executable, "-W", "error", *words[1:]], env=environment, check=True)


def test_the_tutorial(type_in):
    assert type_in("tutorial.md") == {"file": 2, "sh": 3, "python": 1, "text": 3}
    mean = means()
    # As the page has it, within four standard errors; value iteration always goes through the right door.
    assert mean["value_iteration"] == 250
    assert mean["perseus"] == pytest.approx(174, abs=7) and mean["random"] == pytest.approx(-99, abs=11)
    assert mean["perseus"] - 8 < mean["atpo"] < mean["perseus"] + 4


def test_the_page_on_environments(type_in):
    assert type_in("environments.md") == {"python": 3, "text": 3}


BLOCKS = {"file": 2, "sh": 1}


def test_the_page_on_a_learned_agent(type_in, monkeypatch):
    """With three updates of the policy in place of 200, and QMDP's vectors in place of solved ones."""
    tiny_domain.stand_in(monkeypatch)
    assert type_in("learned-agent.md", "UPDATES = 32, 128, 200", "UPDATES = 32, 128, 3") == BLOCKS
    mean = means()
    assert mean["value_iteration"] == pytest.approx(95.4, abs=0.5)
    assert 50 < mean["random"] < 65 < mean["atpo"] < 95.5 and mean["learned"] < 95.5


@pytest.mark.slow
def test_what_the_page_on_a_learned_agent_says(type_in):
    """Value iteration's return is known exactly, the others move with seed and machine."""
    assert type_in("learned-agent.md") == BLOCKS
    mean = means()
    assert mean["value_iteration"] == pytest.approx(95.4, abs=0.5)
    assert 93 < mean["atpo"] < 95.5 and 88 < mean["learned"] < 95.5 and 50 < mean["random"] < 65


@pytest.mark.parametrize("page", ["solving.md", "concepts/solvers.md", "certificates.md"])
def test_a_page_with_one_program(type_in, page):
    assert type_in(page) == {"python": 1, "text": 1}


def test_every_command_on_a_page_has_its_options():
    """Also those that take too long to run, or need a cluster."""
    lines = [
        line for name in PAGES for kind, text in blocks_of(name) if kind == "sh" for line in text.splitlines()
    ]
    lines += [
        line[4:] for name in PAGES for line in (DOCS / name).read_text().splitlines() if line[:4] == "    "
    ]
    found = [match[1] for match in map(COMMAND.match, lines) if match]
    assert len(found) > 60
    for line in found:
        words = shlex.split(line, comments=True)
        command, context = build(words), None
        while isinstance(command, TyperGroup):
            context = command.make_context(
                command.name, list(words[:1]), parent=context, resilient_parsing=True
            )
            _, command, words = command.resolve_command(context, words)
        assert command.make_context(command.name, list(words), parent=context).params, line


def test_the_page_on_simulators(type_in):
    """The planner listens before it opens a door, the mixture of policies does not."""
    assert type_in("simulators.md") == {"file": 1, "sh": 1, "python": 1}
    rows = json.loads(Path("results/simulators.json").read_text())
    found = {row["agent"]: row for row in rows}
    assert found["particle_informed"]["mean"] == 10 and found["joint_planner"]["minus_low"] > 0


def test_the_gradient_examples(type_in):
    """What they print, to the letter, is part of the page."""
    assert type_in("gradient-examples.md") == {"python": 3, "text": 3}
