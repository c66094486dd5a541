"""Limits of control groups, in both versions, and of resources; memory checks respect them."""

import subprocess
import sys

import pytest

from jatpo import limits, memory
from jatpo.errors import JatpoError

GB = 10**9


def laid_out(tmp_path, cgroup: str | None, files: dict[str, str]):
    (tmp_path / "process").mkdir()
    if cgroup is not None:
        (tmp_path / "process" / "cgroup").write_text(cgroup)
    for name, text in files.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "root", tmp_path / "process"


SECOND = "0::/user/job\n"
FIRST = "5:devices:/\n4:memory:/user/job\n1:cpu,cpuacct:/\n0::/\n"


@pytest.mark.parametrize(
    ("cgroup", "files", "left"),
    [
        (SECOND, {"user/job/memory.max": "4000", "user/job/memory.current": "1000"}, 3000),
        (SECOND, {"user/job/memory.max": "max", "user/job/memory.current": "1000"}, limits.UNLIMITED),
        (SECOND, {"user/memory.max": "500", "user/memory.current": "600", "user/job/x": ""}, 0),
        (
            SECOND,
            {"memory.max": "500", "memory.current": "100", "memory.stat": "anon 1\ninactive_file 50"},
            450,
        ),
        (
            FIRST,
            {"memory/user/job/memory.limit_in_bytes": "900", "memory/user/job/memory.usage_in_bytes": "100"},
            800,
        ),
        (
            FIRST,  # a container whose path is that of the machine outside
            {
                "memory/memory.limit_in_bytes": "900",
                "memory/memory.usage_in_bytes": "100",
                "memory/memory.stat": "inactive_file 1\ntotal_inactive_file 60",
            },
            860,
        ),
        (
            FIRST,
            {"memory/memory.limit_in_bytes": str((1 << 63) - 4096), "memory/memory.usage_in_bytes": "1"},
            None,
        ),
        ("", {}, limits.UNLIMITED),
        (
            SECOND,  # a parent is tighter than the group itself
            {
                "user/job/memory.max": "4000",
                "user/job/memory.current": "1000",
                "user/memory.max": "5000",
                "user/memory.current": "4500",
            },
            500,
        ),
        (
            FIRST,
            {
                "memory/user/job/memory.limit_in_bytes": "9000",
                "memory/user/job/memory.usage_in_bytes": "100",
                "memory/user/memory.limit_in_bytes": "1000",
                "memory/user/memory.usage_in_bytes": "700",
            },
            300,
        ),
        (None, {"memory.max": "700", "memory.current": "100"}, 600),  # no list of groups: the root counts
    ],
)
def test_the_tightest_limit_counts(tmp_path, cgroup, files, left):
    expected = limits.UNLIMITED if left is None else left
    assert limits.memory_left(*laid_out(tmp_path, cgroup, files)) == expected


def test_memory_checks_respect_them(monkeypatch):
    monkeypatch.setattr(limits, "memory_left", lambda: GB)
    assert memory.free_bytes() == GB
    with pytest.raises(JatpoError, match=r"x needs 900.0 MB of memory and 1.0 GB are free: y"):
        memory.require(9 * GB // 10, "x", "y")


def test_resource_limits_count():
    code = "from jatpo import memory; print(memory.free_bytes())"
    run = ["sh", "-c", 'ulimit -v 1000000; exec "$0" -c "$1"', sys.executable, code]
    found = subprocess.run(run, capture_output=True, text=True, check=True)
    assert 0 < int(found.stdout) < 1_024_000_000
