"""What is never done with data, and where users' code is loaded; pages load nothing and run only their own scripts."""

import ast
import base64
import hashlib
import re
from pathlib import Path

import pytest

from jatpo.report.content_policy import with_policy

ROOT = Path(__file__).parent.parent.parent
FOLDERS = ("jatpo", "domains", "solve", "evaluate")
CALLS = ("eval", "exec", "compile", "__import__")
MODULES = ("pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib", "yaml")
METHODS = ("system", "popen", "mktemp", "extractall", "fromfile")
LOADERS = ("jatpo/registry.py",)  # loads the files that the user names: JATPO_EXTENSIONS, and by path
MESSAGES = (
    "jatpo/cluster/process_engine.py",
    "jatpo/cluster/worker_units.py",
)  # between processes of one run


def sources():
    return [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


def dangers(tree: ast.AST):
    """Calls and imports that could execute data, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            yield from ((node.lineno, name) for name in names if name.partition(".")[0] in MODULES)
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id in CALLS:
            yield node.lineno, called.id
        if isinstance(called, ast.Attribute) and called.attr in METHODS:
            yield node.lineno, called.attr
        if isinstance(called, ast.Attribute) and called.attr == "exec_module":
            yield node.lineno, "exec_module"
        for keyword in node.keywords:
            value = getattr(keyword.value, "value", None)
            if keyword.arg in ("shell", "allow_pickle") and value is not False:
                yield node.lineno, f"{keyword.arg}={value}"


def permitted(path: str, name: str) -> bool:
    return (path in LOADERS and name == "exec_module") or (path in MESSAGES and name == "pickle")


def test_data_are_never_executed():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sources()
        for line, name in dangers(ast.parse(path.read_text()))
        if not permitted(str(path.relative_to(ROOT)), name)
    ]
    assert not found


@pytest.mark.parametrize(
    "text",
    [
        "eval('1')",
        "import pickle",
        "from yaml import load",
        "run('ls', shell=True)",
        "np.load(f, allow_pickle=True)",
    ],
)
def test_the_search_finds_what_it_looks_for(text):
    assert list(dangers(ast.parse(text)))


def test_arrays_are_read_without_pickle():
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("np.load", "numpy.load"):
                assert any(keyword.arg == "allow_pickle" for keyword in node.keywords), path


def test_only_scripts_of_the_page_run():
    page = "<html>\n<head>\n</head><body><script>\none()</script><script type='application/json'>{}</script></body>"
    digest = base64.b64encode(hashlib.sha256(b"\none()").digest()).decode()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', with_policy(page))
    assert f"script-src 'sha256-{digest}';" in policy
    assert "default-src 'none'" in policy and "unsafe-eval" not in policy
    assert "script-src 'none'" in with_policy("<head>\n</head>")
