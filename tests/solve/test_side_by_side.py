"""Several models at once: the same results in any number of threads or devices, errors, interrupts, resuming."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest

from jatpo.events import Event, ignore
from jatpo.solve import Anytime, Perseus, Status, Stop, driver, jobs, solve_models
from jatpo.solve.side_by_side import Lead, run
from random_models import build, example
from solution_checks import assert_same

TWO = [None, None]
COMPILED = type("Perseus", (Perseus,), {"compiled": True})(beliefs=60, batch=8, steps=10)
QUICK = {
    "perseus": (COMPILED, Stop(stages=4)),
    "small": (Perseus(beliefs=60, batch=8, steps=10), Stop(stages=4)),
    "anytime": (Anytime(walkers=8, steps=6, keep=32), Stop(stages=2)),
}


def library(count: int = 5):
    """Different models of one size, some with hard zeros."""
    return [build(example(("plain", "hard zeros")[k % 2], k)) for k in range(count)]


@pytest.fixture
def threads(monkeypatch):
    """Makes the driver solve in as many threads, on the usual device or on those that are given."""

    def use(places):
        monkeypatch.setattr(driver, "places", lambda missing: places)

    return use


@pytest.mark.parametrize("number", [1, 2, 3, 8])
def test_results_are_in_order_and_events_arrive_in_the_caller(number):
    events, here = [], threading.get_ident()

    def task(k, on_event):
        on_event(Event(f"task {k}", 0, 6))
        return k * k

    def listen(event):
        assert threading.get_ident() == here
        events.append(event)

    assert run([partial(task, k) for k in range(6)], [None] * number, listen) == [0, 1, 4, 9, 16, 25]
    assert {event.title for event in events} == {f"task {k}" for k in range(6)}


def test_an_error_ends_the_others_and_is_raised():
    ended, started = [], threading.Event()

    def long(on_event):
        started.set()
        try:
            while True:
                on_event(Event("long"))
        finally:
            ended.append(True)

    def fails(on_event):
        del on_event
        started.wait(10)
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        run([long, fails], TWO, ignore)
    assert ended == [True]


def test_one_goes_first_where_a_program_is_compiled():
    lead, inside, most, order = Lead(), [], [], []
    gate = threading.Barrier(2, timeout=20)

    def task(k, on_event):
        del on_event
        with lead.taken():
            inside.append(k)
            most.append(len(inside))
            if len(order):  # the leader has left: the others are in the block together
                gate.wait()
            inside.remove(k)
            order.append(k)

    run([partial(task, k) for k in range(3)], [None] * 3, ignore)
    assert most[0] == 1 and max(most) == 2


@pytest.mark.bits
@pytest.mark.parametrize("name", QUICK)
def test_threads_give_the_solutions_of_one_after_another(name, threads):
    models, (solver, stop), key = library(), QUICK[name], jax.random.key(5)
    wanted = solve_models(models, solver, stop, key=key)
    for places in (TWO, [None] * 3):
        threads(places)
        for found, alone in zip(solve_models(models, solver, stop, key=key), wanted, strict=True):
            assert_same(found, alone)


def test_several_models_are_interrupted_and_resumed_to_the_same_solutions(threads, tmp_path):
    """Each model that was under way is kept, whichever thread it was in."""
    models, solver, stop, key = library(), COMPILED, Stop(stages=12), jax.random.key(6)
    threads(TWO)
    stages: dict[str, int] = {}
    notes = []

    def interrupt(event: Event) -> None:
        if event.note:
            notes.append(event.note)
            return
        stages[event.title] = event.figures["stage"]
        if sum(stages.values()) >= 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve_models(models, solver, stop, key=key, cache=tmp_path, on_event=interrupt)
    unfinished = [path for path in tmp_path.iterdir() if not (path / "solution").exists()]
    assert unfinished and all(list(path.glob("run-*")) for path in unfinished)
    assert len(notes) == len(unfinished) and all(Status.INTERRUPTED.value in note for note in notes)
    first: dict[str, int] = {}

    def listen(event: Event) -> None:
        if not event.note:
            first.setdefault(event.title, event.figures["stage"])

    found = solve_models(models, solver, stop, key=key, cache=tmp_path, on_event=listen)
    assert sum(stage > 1 for stage in first.values()) == len(unfinished)
    for each, alone in zip(found, solve_models(models, solver, stop, key=key), strict=True):
        assert_same(each, alone)


def test_models_with_a_time_limit_have_the_cores_of_a_machine_for_themselves(monkeypatch):
    devices = jax.local_devices() * 4
    monkeypatch.setattr(jax, "local_devices", lambda: devices)
    model = library(1)
    for stop, number in ((Stop(stages=3), 4), (Stop(seconds=3), 1)):
        given = jobs.jobs_of(model * 6, Anytime(), stop, None, 0)
        assert jobs.places(given) == [None] * number
    monkeypatch.setattr(jobs.memory, "free_bytes", lambda: 3 * jobs._needed(given[0]))
    assert len(jobs.places(jobs.jobs_of(model * 6, Anytime(), Stop(stages=3), None, 0))) == 2


def digests(devices: bool = False) -> dict:
    """Digests of solutions with all devices of this process; with `devices`, one thread is placed on each."""
    if devices:
        driver.places = lambda missing: jax.local_devices()
    found = {}
    for name, (solver, stop) in QUICK.items():
        solutions = solve_models(library(4), solver, stop, key=jax.random.key(7))
        bits = [np.asarray(each.policy.vectors).tobytes() for each in solutions]
        bounds = [(each.lower, each.upper, each.backups) for each in solutions]
        found[name] = [hashlib.sha256(b"".join(bits)).hexdigest(), bounds]
    return json.loads(json.dumps({"devices": jax.local_device_count(), **found}))


@pytest.mark.bits
@pytest.mark.parametrize("count", [pytest.param(2, marks=pytest.mark.slow), 8])
@pytest.mark.parametrize("devices", [pytest.param(False, marks=pytest.mark.slow), True])
def test_several_devices_give_the_solutions_of_one(count, devices):
    code = f"import json, test_side_by_side as t; print(json.dumps(t.digests({devices})))"
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={count}".strip()
    place = os.pathsep.join(path for path in (str(Path(__file__).parent), *sys.path) if path)
    environment = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": place}
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    several, here = json.loads(result.stdout), digests()
    assert several.pop("devices") == count and here.pop("devices") == 1
    assert several == here
