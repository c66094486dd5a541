"""Compiled programs that are damaged on disk: reported once, removed, compiled again."""

import os
import subprocess
import sys
import warnings
import zlib

import pytest

from jatpo.program_cache import renew_unreadable

CODE = """
import os
from jatpo.program_cache import keep_compiled_programs, renew_unreadable
keep_compiled_programs(os.environ)
renew_unreadable(os.environ, print)
import jax
print(jax.jit(lambda x: x * 2 + 1)(3))
"""


def test_a_program_that_was_cut_short_is_compiled_and_kept_again(tmp_path):
    environment = {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "JAX_ENABLE_COMPILATION_CACHE": "true",
        "JAX_PLATFORMS": "cpu",
    }

    def ran():
        done = subprocess.run(
            [sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.split("\n")[:-1], done.stderr

    assert ran() == (["7"], "")
    (program,) = tmp_path.glob("jit*-cache")
    whole = program.read_bytes()
    program.write_bytes(whole[: len(whole) // 2])
    lines, error = ran()
    assert lines[-1] == "7" and len(lines) == 2 and not error
    assert "cannot be read: it is removed and compiled again" in lines[0]
    assert zlib.decompress(program.read_bytes())
    assert ran() == (["7"], "")


def test_other_warnings_stay_as_they_are(tmp_path):
    environment, notes = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path)}, []
    for name in ("jit_f-00-cache", "jit_f-01-cache", "jit_ff-00-cache"):
        (tmp_path / name).write_bytes(b"x")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        renew_unreadable(environment, notes.append)
        warnings.warn(
            "Error writing persistent compilation cache entry for 'jit_f': OSError: disk\nfull", stacklevel=1
        )
    assert [path.name for path in tmp_path.iterdir()] == ["jit_ff-00-cache"]
    assert len(notes) == 1 and "cannot be kept (OSError: disk full)" in notes[0]
    with pytest.warns(UserWarning, match="something else"), warnings.catch_warnings():
        warnings.simplefilter("always")
        renew_unreadable(environment, notes.append)
        warnings.warn("something else", stacklevel=1)
    assert len(notes) == 1
