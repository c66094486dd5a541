"""How many cores a process may use, and how many devices the command line makes of them."""

import os
import subprocess
import sys

import pytest

from jatpo.cores import every_core_a_device, usable_cores


def test_no_more_cores_than_the_process_may_run_on(tmp_path):
    assert usable_cores(tmp_path, tmp_path) == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({"cpu.max": "100000 100000"}, 1),
        ({"cpu.max": "20000 100000"}, 1),
        ({"cpu.max": "150000 100000"}, 2),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu.max": "nonsense"}, None),
        ({"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
    ],
)
def test_the_time_of_a_control_group_counts(tmp_path, files, wanted, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(64)))
    for name, text in files.items():
        place = tmp_path / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
    assert usable_cores(tmp_path, tmp_path) == (wanted or 64)


NESTED = "0::/batch/job/step\n"
APART = "4:memory:/elsewhere\n3:cpu,cpuacct:/batch/job\n0::/\n"


@pytest.mark.parametrize(
    ("groups", "files", "wanted"),
    [
        (NESTED, {"batch/job/step/cpu.max": "300000 100000", "batch/job/cpu.max": "max 100000"}, 3),
        (NESTED, {"batch/job/step/cpu.max": "800000 100000", "batch/job/cpu.max": "500000 100000"}, 5),
        (NESTED, {"batch/job/step/cpu.max": "max 100000", "batch/cpu.max": "200000 100000"}, 2),
        (NESTED, {"batch/other/cpu.max": "100000 100000", "batch/job/step/cpu.max": "max 100000"}, None),
        (NESTED, {"cpu.max": "400000 100000"}, 4),  # a container that sees itself as the root
        (APART, {"cpu/batch/job/cpu.cfs_quota_us": "150000", "cpu/batch/job/cpu.cfs_period_us": "100000"}, 2),
        (APART, {"cpu/batch/cpu.cfs_quota_us": "600000", "cpu/batch/cpu.cfs_period_us": "100000"}, 6),
        (APART, {"cpu/elsewhere/cpu.cfs_quota_us": "1", "cpu/elsewhere/cpu.cfs_period_us": "1"}, None),
        (
            APART,
            {"cpu,cpuacct/batch/job/cpu.cfs_quota_us": "1", "cpu,cpuacct/batch/job/cpu.cfs_period_us": "1"},
            1,
        ),
        (NESTED, {"batch/job/step/cpu.max": "100000 0"}, None),
        ("0::/../../escaped\n", {"cpu.max": "200000 100000"}, 2),
    ],
)
def test_the_own_group_and_all_around_it_count(tmp_path, groups, files, wanted, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(64)))
    (tmp_path / "process").mkdir()
    (tmp_path / "process" / "cgroup").write_text(groups)
    (tmp_path / "root" / "batch/job/step").mkdir(parents=True)
    for name, text in files.items():
        place = tmp_path / "root" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    assert usable_cores(tmp_path / "root", tmp_path / "process") == (wanted or 64)


def test_what_the_user_asked_for_stays():
    for given in ({"JAX_NUM_CPU_DEVICES": "3"}, {"XLA_FLAGS": "--xla_force_host_platform_device_count=5"}):
        environment = dict(given)
        every_core_a_device(environment)
        assert environment == given
    environment = {"XLA_FLAGS": "--xla_cpu_use_fusion_emitters=false"}
    every_core_a_device(environment)
    assert int(environment["JAX_NUM_CPU_DEVICES"]) == usable_cores()


def test_a_command_sees_the_devices():
    code = (
        "import jatpo.cores, sys; jatpo.cores.usable_cores = lambda: 3\n"
        "from jatpo.cli.main import run; run(['--version'])\n"
        "import jax; print(jax.local_device_count())"
    )
    environment = {key: value for key, value in os.environ.items() if key != "JAX_NUM_CPU_DEVICES"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "3"
