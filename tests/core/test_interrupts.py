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
