"""Compiled kernels are kept whole or not at all, whatever happens to their files."""

import pytest

from jatpo.solve import compiled_engine, kept_kernels


@pytest.fixture
def place(monkeypatch, tmp_path):
    """The directory of the kernels, in a folder of the test's own."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    kept_kernels.directory.cache_clear()
    yield kept_kernels.directory()
    kept_kernels.directory.cache_clear()


def compiled(content: bytes | None = None) -> bytes:
    """What the directory of kernels holds, after `content` was compiled where there is nothing."""
    with kept_kernels.kept() as found:
        file = found / "kernel.nbc"
        if not file.exists():
            assert content is not None, "the kernels are not there"
            file.write_bytes(content)
        return file.read_bytes()


def test_kernels_are_compiled_once(place):
    assert not compiled_engine.ready()
    assert compiled(b"machine code") == b"machine code"
    assert compiled_engine.ready()
    assert compiled() == b"machine code"
    assert [path.name for path in place.parent.iterdir()] == [place.name]


@pytest.mark.parametrize("damage", [b"machine c", b"machine cod\0", b"machine code\0", b""])
def test_damaged_kernels_are_compiled_again(place, damage):
    compiled(b"machine code")
    (place / "kernel.nbc").write_bytes(damage)
    assert not compiled_engine.ready()
    assert compiled(b"other code") == compiled() == b"other code"


def test_kernels_whose_compilation_ended_early_are_compiled_again(place):
    with pytest.raises(KeyboardInterrupt), kept_kernels.kept() as found:
        (found / "kernel.nbc").write_bytes(b"mach")
        raise KeyboardInterrupt
    assert list(place.parent.iterdir()) == []
    assert compiled(b"machine code") == b"machine code"


def test_kernels_that_cannot_be_kept_are_compiled_for_one_process(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("no directory")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "kernels"))
    kept_kernels.directory.cache_clear()
    assert compiled(b"machine code") == b"machine code"
    assert not compiled_engine.ready()
    kept_kernels.directory.cache_clear()


def test_kernels_are_not_kept_on_a_full_disk(monkeypatch, place):
    monkeypatch.setattr(kept_kernels, "ROOM", 1 << 62)
    assert compiled(b"machine code") == b"machine code"
    assert list(place.parent.iterdir()) == []
