"""Ctrl-C: exit code 130 from native code, from callbacks that drop exceptions, and at the second one; whole steps."""

import os
import signal
import subprocess
import sys
import time

import pytest

from jatpo import interrupts

HEAD = """
import hashlib, signal, sys, time, types
from importlib.machinery import ModuleSpec
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
from jatpo import interrupts
from jatpo.cli import app, main

def started():
    print("started", flush=True)

{command}

module = types.ModuleType("working")
module.work, module.__spec__ = work, ModuleSpec("working", None)
sys.modules["working"] = module
app.COMMANDS = (app.Command("Models", "work", "working", "work"),)
interrupts.install({grace})
main.main(["work"])
"""
NATIVE = """
def work():  # native code that does not hold the interpreter's lock and does not listen to signals
    started()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
"""
DROPPED = """
class Dropping:
    def __del__(self):
        started()
        time.sleep(60)

def work():
    Dropping()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
"""
TURNED = """
def work():
    started()
    try:
        time.sleep(60)
    except BaseException as error:
        raise RuntimeError("a library has turned it into something else") from error
"""
THREADS = """
import threading

def work():  # what XLA's threads do: they are busy when the interpreter ends
    for _ in range(2):
        threading.Thread(target=hashlib.pbkdf2_hmac, args=("sha256", b"", b"", 10**9)).start()
    started()
    time.sleep(60)
"""
ABORTED = """
import os

def work():  # what C++ does with an exception of Python where it expects none
    started()
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        os.abort()
"""
FAULT = ABORTED.replace("import os", "import ctypes").replace("os.abort()", "ctypes.string_at(0)")
AFTERWARDS = """
import atexit

def late():
    started()
    time.sleep(60)

def work():
    atexit.register(late)
"""


def interrupted(command: str, times: int = 1, grace: str = "1.3") -> tuple[int, str]:
    """The exit code and standard error of a command that gets Ctrl-C once it has started."""
    script = HEAD.format(command=command, grace=grace)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", script], **pipes) as process:
        assert process.stdout.readline() == "started\n"
        for _ in range(times):
            process.send_signal(signal.SIGINT)
            process.poll()
        try:
            return process.wait(40), process.stderr.read()
        finally:
            process.kill()


@pytest.mark.parametrize(
    "command",
    [NATIVE, DROPPED, TURNED, THREADS, ABORTED, FAULT],
    ids=["native", "dropped", "turned", "threads", "aborted", "fault"],
)
def test_ctrl_c_ends_a_command_wherever_it_is(command):
    code, error = interrupted(command)
    assert code == 130
    assert error.splitlines()[-1] == f"jatpo: {interrupts.MESSAGE}"
    assert error.count(interrupts.MESSAGE) == 1


@pytest.mark.parametrize(
    ("marks", "seconds"),
    [
        ([signal.SIGINT], [None, 4.0]),  # native code keeps the handler from running
        ([signal.SIGINT, interrupts.HANDLED], [None, 4.0, 8.0]),
        ([interrupts.HANDLED], [None, 8.0]),
        ([signal.SIGINT, signal.SIGINT], [None, 4.0]),
        ([interrupts.FINISHED], [None, interrupts.ENDING]),
    ],
    ids=["unheard", "heard", "without the descriptor", "twice", "done"],
)
def test_how_long_is_waited_for_the_end(monkeypatch, marks, seconds):
    """Half of the grace where the main thread does not hear of Ctrl-C; some time even for a command that is done."""
    read, write = os.pipe()
    os.write(write, bytes(marks))
    waited, now = [], interrupts.select.select
    monkeypatch.setattr(interrupts.time, "monotonic", lambda: 100.0)
    monkeypatch.setattr(
        interrupts.select, "select", lambda *sets: (waited.append(sets[3]), now(*sets[:3], 0))[1]
    )
    monkeypatch.setattr(interrupts, "_end", lambda: None)
    interrupts._watch(read, 8.0)
    assert waited == seconds
    os.close(read)
    os.close(write)


def test_a_second_ctrl_c_ends_it_at_once():
    script = HEAD.format(command=NATIVE, grace="3600")
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "started\n"
        time.sleep(1)  # until the native code has begun
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)  # the first one waits for what is under way
        process.send_signal(signal.SIGINT)
        assert process.wait(40) == 130


def test_a_command_that_is_done_keeps_its_code():
    assert interrupted(AFTERWARDS) == (0, "")


def test_a_command_that_is_done_ends_within_a_limit():
    """A thread that a library has left waiting, as on a full disk."""
    command = """
import threading

def work():
    interrupts.ENDING = 1
    threading.Thread(target=threading.Event().wait).start()
    print("the answer")
    print("jatpo: no space", file=sys.stderr)
"""
    script = HEAD.format(command=command, grace="1.3")
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            out, error = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, out, error) == (0, b"the answer\n", b"jatpo: no space\n")


def test_a_block_is_not_cut_short():
    done = []
    signal_before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), interrupts.deferred():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("all of it")
        assert done == ["all of it"]
        with interrupts.deferred():
            done.append("and later ones are not interrupted")
        with pytest.raises(KeyboardInterrupt), interrupts.deferred():
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)  # the second is raised at once
            done.append("not reached")
        assert len(done) == 2
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, signal_before)


def test_ctrl_c_while_the_interpreter_ends_keeps_the_exit_code():
    """Python restores the default handler then, which would end a finished command with -2."""
    program = """
import os, time
from jatpo import interrupts
class Slow:
    def __del__(self, write=os.write, sleep=time.sleep):
        write(1, b"ending\\n")
        sleep(0.5)
interrupts.install()
slow = Slow()
interrupts.finish(0)
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ending\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 0
