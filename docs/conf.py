"""How `make docs` builds the site: Sphinx with MyST, tutorials that are executed, the reference from docstrings."""

import logging
import os
import re
from pathlib import Path

from jatpo.version import __version__

HERE = Path(__file__).parent
project, author, release, version = "jatpo", "The jatpo authors", __version__, __version__
copyright = "The jatpo authors, MIT licence"
extensions = ["myst_nb", "sphinx.ext.autodoc"]
source_suffix = {".md": "myst-nb"}
exclude_patterns = ["images", "site"]
suppress_warnings = ["mystnb.unknown_mime_type"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True
os.environ.setdefault("JAX_PLATFORMS", "cpu")
MADE = HERE.parent / "build" / "docs"
os.environ["JATPO_CACHE"] = str(MADE / "solutions")
os.environ["IPYTHONDIR"] = str(MADE / "ipython")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(MADE / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")

# The kernels of the tutorials report their start; only errors matter.
KERNEL = MADE / "ipython" / "profile_default" / "ipython_kernel_config.py"
KERNEL.parent.mkdir(parents=True, exist_ok=True)
KERNEL.write_text("c.IPKernelApp.log_level = 'ERROR'\n")
logging.getLogger("traitlets").setLevel(logging.WARNING)

html_theme = "furo"
html_title = f"jatpo {__version__}"
html_theme_options = {"navigation_with_keys": True}
html_copy_source = False
html_static_path = ["site"]
html_css_files = ["site.css"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_default_options = {"exclude-members": "tree_flatten_with_keys, tree_unflatten"}
python_use_unqualified_type_names = True
default_role = "code"

REPOSITORY = re.compile(r"\]\(\.\./(?!images/)([\w./-]+?)(#[\w-]+)?\)")
SPECIAL = re.compile(r"(`[^`]+`)|([*|\\])|(\w_)(?=\W|$)")


def adapt(app, name, text):
    """Pages as they are read in the repository: other files of it are named, not linked."""
    text[0] = REPOSITORY.sub(lambda found: _link(found[1]), text[0])


def _link(file):
    """The target of a link to a file of the repository outside docs/."""
    pages = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "README.md": "index.md"}
    return f"](/{pages[file]})" if file in pages else "](project:/architecture.md)"


def restructure(app, what, name, thing, options, lines):
    """Docstrings are plain text: indented parts are shown as they are, and no sign in them is markup."""
    found, inside = [], False
    for line in lines:
        indented = line.startswith("  ")
        if indented and not inside:
            found += ["", "::", ""]
        if inside and line.strip() and not indented:
            found.append("")
        inside = indented or (inside and not line.strip())
        found.append(line if indented else SPECIAL.sub(_escaped, line))
    lines[:] = [*found, ""]


def _escaped(found):
    if found[1]:
        return f"`{found[1]}`"
    return f"\\{found[2]}" if found[2] else f"{found[3][0]}\\_"


def setup(app):
    """The two hooks."""
    app.connect("source-read", adapt)
    app.connect("autodoc-process-docstring", restructure)
