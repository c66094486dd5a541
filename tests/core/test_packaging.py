"""What is installed, what the repository may contain, and that the tests are as strict as they claim."""

import ast
import importlib.metadata
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from jatpo.version import __version__

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS = {package: ROOT / path for package, path in PROJECT["tool"]["setuptools"]["package-dir"].items()}
DATA = (".json", ".html", ".css", ".js", ".typed")
SKIP = shutil.ignore_patterns("__pycache__", "*.egg-info", ".venv", ".cache", ".git", "build", "dist")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built from a copy of the source tree, as (the names of its files, its metadata)."""
    copy, out = tmp_path_factory.mktemp("source") / "jatpo", tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, copy, ignore=SKIP)
    script = f"from setuptools import build_meta; build_meta.build_wheel({str(out)!r})"
    result = subprocess.run([sys.executable, "-c", script], cwd=copy, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    (path,) = out.iterdir()
    with zipfile.ZipFile(path) as archive:
        return set(archive.namelist()), archive.read(f"jatpo-{__version__}.dist-info/METADATA").decode()


def test_a_package_index_shows_the_readme_without_relative_addresses(wheel):
    """README has one picture and several links that work inside the repository only."""
    _, metadata = wheel
    assert "Description-Content-Type: text/markdown" in metadata
    shown = metadata.split("\n\n", 1)[1]
    assert (
        "## Quickstart" in shown and "in a clone of this repository" in shown and "docs/results.md" in shown
    )
    relative = r"\]\((?!https?:)"
    assert re.search(relative, (ROOT / "README.md").read_text()) and not re.search(relative, shown)


def test_the_wheel_has_one_package(wheel):
    names, _ = wheel
    assert {name.split("/")[0] for name in names} == {"jatpo", f"jatpo-{__version__}.dist-info"}


def test_the_wheel_has_every_module_and_data_file(wheel):
    names, _ = wheel
    for package, folder in FOLDERS.items():
        for path in folder.iterdir():
            if path.suffix == ".py" or path.name.endswith(DATA):
                assert f"{package.replace('.', '/')}/{path.name}" in names


def test_every_folder_with_modules_is_a_package():
    folders = {path.parent for top in set(FOLDERS.values()) for path in top.rglob("*.py")}
    assert folders == set(FOLDERS.values())
    assert sorted(FOLDERS) == sorted(PROJECT["tool"]["setuptools"]["packages"])


@pytest.mark.parametrize("package", sorted(FOLDERS))
def test_packages_are_imported_from_their_folders(package):
    module = importlib.import_module(package)
    assert Path(module.__file__).parent == FOLDERS[package]


def test_the_version_is_the_same_everywhere():
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert __version__ == newest[1]  # that of the wheel is tested above
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"version = {{{__version__}}}" in (ROOT / "README.md").read_text()


def test_the_pinned_versions_satisfy_the_ranges():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9A-Za-z.+!]+", line) for line in lines)
    pins = {normal(line.split("==")[0]): line.split("==")[1] for line in lines}
    groups = [PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"].values()]
    for requirement in (Requirement(text) for group in groups for text in group):
        assert requirement.specifier.contains(pins[normal(requirement.name)]), str(requirement)


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def repository_files():
    """The text files under version control or about to be; all files where there is no git."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        result = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
        paths = [ROOT / name for name in result.stdout.decode().split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        skipped = (".venv", ".cache", ".git", "build", "dist", "__pycache__")
        paths = [path for path in ROOT.rglob("*") if not set(skipped) & set(path.relative_to(ROOT).parts)]
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()]


def test_no_file_names_a_registry_or_a_place_on_somebodys_machine():
    host = r"\b(?:pypi\.|pythonhosted\.|npmjs\.|debian\.|conda\.)[a-z]"
    place = r"(?<![\w.])/(?:work|tmp|root|home|Users|opt)/\w"
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in repository_files()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(f"{host}|{place}", line)
    ]
    assert found == []


def imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_oracles_share_nothing_with_jatpo():
    shared = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in (ROOT / "tests" / "oracles").rglob("*.py")
        for module in imported_modules(path)
        if module.split(".")[0] in ("jatpo", "jax")
    ]
    assert shared == []


def test_rank_and_dtype_promotion_are_errors_in_tests():
    import jax.numpy as jnp

    with pytest.raises(ValueError, match="rank_promotion"):
        jnp.ones(3) + jnp.ones((2, 3))
    with pytest.raises(Exception, match="no available implicit dtype promotion"):
        jnp.ones(3, jnp.float32) + jnp.ones(3, jnp.int32)


def test_x64_is_a_choice(x64):
    import jax.numpy as jnp

    assert jnp.zeros(1).dtype == jnp.float64


def test_the_readme_runs(capsys):
    """And prints what its comments say: the part of each comment in brackets. The quickstart has a test of its own."""
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    code = "".join(blocks[1:])
    exec(code, {})
    expected = re.findall(r"^print\(.*# (\[.*?\])", code, re.MULTILINE)
    assert expected
    assert capsys.readouterr().out.splitlines() == expected


def test_the_readme_names_commands_that_exist():
    from jatpo.cli.app import COMMANDS

    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    used = re.findall(r"^jatpo (\w[\w-]*)", "\n".join(blocks), re.MULTILINE)
    assert used
    assert set(used) <= {command.name for command in COMMANDS}
    targets = re.findall(r"^make (\w+)", "\n".join(blocks), re.MULTILINE)
    assert targets == ["shell", "demo", "test"]
