"""Whether somebody else copies to the device."""

from collections.abc import Iterator

from harness.judge.exchange import host_link


def test_calm_is_what_the_least_copy_says() -> None:
    usual = host_link.Usual()
    assert usual.is_calm(0.045)
    assert not usual.is_calm(0.090)
    assert usual.is_calm(0.050)


def test_a_busy_beginning_is_forgotten() -> None:
    usual = host_link.Usual()
    assert usual.is_calm(0.090)  # nothing else is known yet
    assert usual.is_calm(0.045)
    assert not usual.is_calm(0.090)


def test_calm_is_waited_for() -> None:
    found = iter([False, False, True])
    assert host_link.is_calm_soon(lambda: next(found), lambda: 0.0)


def test_it_is_not_waited_for_ever() -> None:
    def clock() -> Iterator[float]:
        at = 0.0
        while True:
            yield at
            at += host_link.CALM_S / 3

    times = clock()
    assert not host_link.is_calm_soon(lambda: False, lambda: next(times))
