"""How the processor rounds and whether it keeps numbers below the smallest normal one: a state of
each thread, which code that is loaded may change."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

STATE_BYTES = 1024  # more than C's fenv_t has anywhere: 32 on x86-64, 8 on AArch64


@contextmanager
def same_float_state() -> Iterator[None]:
    """Restore the state afterwards. Where a library is linked with -ffast-math or -Ofast, clang and
    gcc before 13 add code (crtfastmath.o) that sets such numbers to zero once it is loaded, for
    everything else that this thread computes, too."""
    c = c_mathematics()
    state = ctypes.create_string_buffer(STATE_BYTES)
    if c.fegetenv(state):
        raise OSError("fegetenv cannot read the floating-point state")
    try:
        yield
    finally:
        c.fesetenv(state)


def c_mathematics() -> ctypes.CDLL:
    """Return the C library's functions of <fenv.h>."""
    try:
        return ctypes.CDLL("libm.so.6")
    except OSError:  # a C library that has its mathematics inside
        return ctypes.CDLL(None)
