"""Events."""

import dataclasses

import pytest

from jatpo.events import Event, ignore, titled


def test_an_event_is_frozen_and_knows_its_share():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Event("x").done = 2
    assert [Event("x", done, total).share for done, total in ((3, 4), (5, 4), (3, None), (1, 0))] == [
        0.75,
        1.0,
        0.0,
        0.0,
    ]
    assert ignore(Event()) is None


def test_a_titled_listener_renames_progress_and_passes_notes_on():
    heard = []
    send = titled("outer", heard.append)
    send(Event("inner", 1, 2, {"value": 0.5}))
    send(Event(note="look"))
    assert heard == [Event("outer", 1, 2, {"value": 0.5}), Event(note="look")]
