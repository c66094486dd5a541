"""The rules of docs/architecture.md, held over the syntax trees of the package.

Imports point down, by folder and by module, without cycles; a module's last name is unique; nobody asks for the type of
a storage, solver, plan or agent; kernels know no clock, file or print; `dict[str, Any]` stays at the edges.
"""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
FOLDERS = {
    package: ROOT / path
    for package, path in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"][
        "package-dir"
    ].items()
}
LAYERS = (
    "jatpo",
    "jatpo.domains",
    "jatpo.solve",
    "jatpo.files",
    "jatpo.evaluate",
    "jatpo.learn",
    "jatpo.envs",
    "jatpo.report",
    "jatpo.bench",
    "jatpo.cli",
)
ENTRIES = ("jatpo", "jatpo.__main__", "jatpo.api")  # these hand out what lies above them
EDGES = (
    "jatpo.files",
    "jatpo.tables",
    "jatpo.disk",
    "jatpo.cli",
    "jatpo.report",
    "jatpo.bench",
    "jatpo.plain",
)
KINDS = r"(?:Transition|Observation|Storage|Plan|Settings|Solver|Perseus|Anytime|QMDP|Agent|ATPO)\b"
CLOCKS_AND_FILES = {"time", "os", "io", "pathlib", "shutil", "tempfile", "sys"}


@cache
def modules():
    """The syntax tree of every module, by its dotted name."""
    found = {}
    for package, folder in FOLDERS.items():
        for path in sorted(folder.glob("*.py")):
            name = package if path.stem == "__init__" else f"{package}.{path.stem}"
            found[name] = ast.parse(path.read_text())
    return found


def own_imports(tree, known, *, inner):
    """The project's modules that a tree imports at its top level, or with `inner` inside functions."""
    for node in walk_imports(tree, inner):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            assert node.level == 0, f"relative import: {ast.unparse(node)}"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parents = [name, name.rpartition(".")[0]]
            match = next((part for part in parents if part in known), None)
            if match:
                yield match


def walk_imports(tree, inner):
    """Import statements outside of `if TYPE_CHECKING`, at the top level or inside functions."""
    todo = [(node, False) for node in tree.body]
    while todo:
        node, inside = todo.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import | ast.ImportFrom) and inside == inner:
            yield node
        deeper = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        todo += [(child, deeper) for child in ast.iter_child_nodes(node)]


def layer_of(name):
    fits = [layer for layer in LAYERS if f"{name}.".startswith(f"{layer}.")]
    return LAYERS.index(max(fits, key=len))


def test_imports_point_down():
    upward = [
        f"{name} imports {other}"
        for name, tree in modules().items()
        if name not in ENTRIES
        for inner in (False, True)
        for other in own_imports(tree, modules(), inner=inner)
        if layer_of(other) > layer_of(name) and not (other in FOLDERS and name.startswith(f"{other}."))
    ]
    assert upward == []


def test_imports_have_no_cycles():
    graph = {
        name: set(own_imports(tree, modules(), inner=False)) - {name}
        for name, tree in modules().items()
        if name not in ENTRIES
    }
    left = dict(graph)
    while True:  # take away what imports nothing that is left
        free = [name for name, others in left.items() if not others & set(left)]
        if not free:
            break
        for name in free:
            del left[name]
    assert sorted(left) == []


def test_imports_inside_functions_are_for_the_command_line_and_packages():
    found = [
        f"{name} imports {other} inside a function"
        for name, tree in modules().items()
        if not name.startswith("jatpo.cli") and name not in FOLDERS
        for other in own_imports(tree, modules(), inner=True)
    ]
    assert found == []


def test_last_names_of_modules_are_unique():
    names = [name.rpartition(".")[2] for name in modules() if name not in FOLDERS]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def calls(tree, *functions):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions:
            yield node


def test_nobody_asks_for_the_type_of_a_storage_solver_plan_or_agent():
    found = [
        f"{name}: {ast.unparse(call)}"
        for name, tree in modules().items()
        for call in calls(tree, "isinstance", "issubclass")
        if re.search(KINDS, ast.unparse(call.args[1]))
    ]
    assert found == []


def is_kernel(tree):
    """Whether a module computes with jax.numpy."""
    return any(
        "jax.numpy" in ast.unparse(node)
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
    )


def test_kernels_know_no_clock_file_or_print():
    found = []
    for name, tree in modules().items():
        if not is_kernel(tree) or name.startswith(("jatpo.cli", "jatpo.bench")):
            continue
        for node in walk_imports(tree, inner=False):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module]
            found += [f"{name} imports {part}" for part in names if part.split(".")[0] in CLOCKS_AND_FILES]
        found += [f"{name}: {ast.unparse(call)}" for call in calls(tree, "print", "open")]
    assert found == []


def test_loose_dictionaries_stay_at_the_edges():
    found = [
        f"{name}:{node.lineno}"
        for name, tree in modules().items()
        if not name.startswith(EDGES)
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and ast.unparse(node) == "dict[str, Any]"
    ]
    assert found == []


def test_dataclasses_become_pytrees_in_one_place():
    """`register_dataclass` of jax lets one class pass for another; see `jatpo.pytree`."""
    attributes = ("jax.tree_util.register_dataclass", "chex.dataclass")
    found = [
        f"{name}:{node.lineno}"
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node) in attributes
    ]
    assert found == []


@pytest.mark.parametrize("package", sorted(FOLDERS))
def test_docstrings_cite_only_files_that_are_here(package):
    """A file named in a docstring is one of the repository."""
    known = {
        path.name for path in ROOT.rglob("*") if not {".venv", ".cache", ".git", "build"} & set(path.parts)
    }
    found = []
    for name, tree in modules().items():
        if name != package and name.rpartition(".")[0] != package:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node) or ""
                cited = re.findall(r"\b[\w-]+\.(?:md|tex)\b", text)
                found += [f"{name}: {file}" for file in cited if file not in known]
    assert found == []
