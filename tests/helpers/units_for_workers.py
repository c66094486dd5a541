"""Functions that tests have computed on workers."""

import os
import signal
import time
from pathlib import Path


def plus(array, number):
    return array + number


def pair(first, second):
    return first, second


def refuse_even(number):
    if number % 2 == 0:
        raise ValueError(f"{number} is even")
    return number


def die_once(number, mark):
    """The number; the first worker that computes 3 is killed."""
    if number == 3 and not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def grow(number, bad):
    """The number; where it is `bad`, more memory than a worker has."""
    held = []
    while number == bad:
        held.append(bytearray(os.urandom(1 << 20) * 16))
        time.sleep(0.01)
    return number


def pause(number):
    """The number, on a slow worker after a while."""
    time.sleep(float(os.environ.get("PAUSE", "0.02")))
    return number
