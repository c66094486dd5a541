"""The content security policy of the pages that jatpo writes: nothing is loaded, and only the page's own scripts run.

Text in a page is escaped; the policy holds even where that was forgotten, since a script runs only if its digest is in
it. Styles are inline, and pictures are part of the page.
"""

from __future__ import annotations

import base64
import hashlib
import re

HEAD = "<head>\n"
SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def with_policy(page: str) -> str:
    """`page` with the policy for its scripts as the first thing in its head."""
    scripts = "".join(f" 'sha256-{_digest(script)}'" for script in SCRIPT.findall(page)) or " 'none'"
    policy = (
        f"default-src 'none'; script-src{scripts}; style-src 'unsafe-inline'; img-src data: blob:; "
        "font-src data:; base-uri 'none'; form-action 'none'"
    )
    return page.replace(HEAD, f'{HEAD}<meta http-equiv="Content-Security-Policy" content="{policy}">\n', 1)


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
