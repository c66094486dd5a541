"""Plain English: words of the project's list that must not appear in docs, docstrings, comments, help or messages.

    python .ci/words.py [PATH ...]        prints each place, exit code 1 where there is one

Every entry is a regular expression with what to write instead. Code (identifiers, quoted code) counts like prose; a
line that needs such a word for another reason ends in `words: keep`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
KEEP = "words: keep"
THINGS = "model|share|solver|part|domain|agent|number|file|library|policy|directory|option"
WORDS = {
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\bfor ever\b": "forever, indefinitely",
    r"\bbetray(s|ed|ing)?\b": "reveal",
    r"\blearnt\b": "learned",
    r"\bgoes on\b|\bgone on with\b|\bgo on with\b": "resume, continue",
    r"\b(s|seconds|they|trials that) are over\b|\btime is over\b": "time limit reached, finished",
    r"\bis no \w+ by its suffix\b": "unsupported file type '...'",
    rf"(?<!there )(?<!There )\bis no ({THINGS})\b": "is not a ...",
    r"\btells? (what|which|how|whether|apart)\b|\btold apart\b": "report, return; distinguish",
    r"; without it\b|\(.* without it\)": "default: ...",
    r"\bwith commas between\b": "comma-separated",
    r"\bpromise[sd]?\b": "bound, claim",
    r"\bthe one that wins\b": "the best, maximiser",
    r"\bwhat may follow\b": "successors",
    r"\bhow likely\b": "probability",
    r"\bchance of\b": "probability of",
    r"\ba key that means nothing\b": "unknown key",
    r"\bbeyond doubt\b": "significantly",
    r"\bw[io]ns? back\b": "recover",
    r"\bwhat is so\b": "true state",
    r"\bslips? of the pen\b": "error",
    r"\bkeeps? to the aim\b|\bthe aims?\b|\| aim \|": "target",
}
SUFFIXES = (".py", ".md", ".js", ".yml", ".toml", ".cff")
SKIP = ("tests/oracles/domains/", ".ci/words.py")


def places(path: Path, name: str) -> list[str]:
    """Where the words stand in a file."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.rstrip().endswith(KEEP):
            continue
        for pattern, better in WORDS.items():
            for match in re.finditer(pattern, line, re.IGNORECASE):
                found.append(f"{name}:{number}: '{match[0]}': write {better}")
    return found


def listed() -> list[str]:
    """The files of the repository."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    return [name for name in result.stdout.decode().split("\0") if name.endswith(SUFFIXES)]


def main(arguments: list[str]) -> int:
    """The exit code."""
    names = arguments or [name for name in listed() if not name.startswith(SKIP) and (ROOT / name).is_file()]
    found = [place for name in names for place in places(ROOT / name, name)]
    print("\n".join(found) if found else f"{len(names)} files, no word of the list")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
