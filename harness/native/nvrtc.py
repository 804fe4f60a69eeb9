"""NVRTC, NVIDIA's compiler as a library, through ctypes (NVRTC documentation, "User Interface")."""

from __future__ import annotations

import ctypes
import glob
import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from .building import NativeError, SourceRefused

# NVRTC has no standard library. It already declares the functions of the headers that kernels
# usually include; these texts supply their types and constants.
_INTEGERS = """#pragma once
using int8_t = signed char; using int16_t = signed short;
using int32_t = signed int; using int64_t = signed long long;
using uint8_t = unsigned char; using uint16_t = unsigned short;
using uint32_t = unsigned int; using uint64_t = unsigned long long;
using intptr_t = int64_t; using uintptr_t = uint64_t;
#ifndef INT32_MAX
#define INT32_MAX 2147483647
#define INT32_MIN (-2147483647 - 1)
#define UINT32_MAX 4294967295u
#define INT64_MAX 9223372036854775807ll
#define INT64_MIN (-9223372036854775807ll - 1)
#define UINT64_MAX 18446744073709551615ull
#endif
namespace std {
using ::int8_t; using ::int16_t; using ::int32_t; using ::int64_t;
using ::uint8_t; using ::uint16_t; using ::uint32_t; using ::uint64_t;
using ::intptr_t; using ::uintptr_t;
}
"""
_LIMITS = """#pragma once
#ifndef FLT_MAX
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define DBL_MAX 1.7976931348623157e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#endif
#ifndef INT_MAX
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u
#define LLONG_MAX 9223372036854775807ll
#define LLONG_MIN (-9223372036854775807ll - 1)
#endif
"""
_MATH = """#pragma once
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif
#ifndef M_PI
#define M_PI 3.14159265358979323846
#endif
"""
HEADERS = {
    **dict.fromkeys(("cstdint", "stdint.h"), _INTEGERS),
    **dict.fromkeys(("cfloat", "float.h", "climits", "limits.h"), _LIMITS),
    **dict.fromkeys(("cmath", "math.h"), _MATH),
    **dict.fromkeys(
        ("cstddef", "stddef.h", "cstdio", "stdio.h", "cuda_runtime.h"), "#pragma once\n"
    ),
}


def build(
    library: str, source: str, flags: Sequence[str], names: Sequence[str]
) -> tuple[bytes, dict[str, str], str, str]:
    """Compile; returns (binary, symbols by name, PTX, log). Raises SourceRefused with the
    compiler's output, NativeError."""
    nvrtc = _load(library)
    program = ctypes.c_void_p()
    texts, files = _strings(list(HEADERS.values())), _strings(list(HEADERS))
    _check(
        nvrtc,
        nvrtc.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(), b"kernel.cu", len(HEADERS), texts, files
        ),
    )
    try:
        for name in names:
            _check(nvrtc, nvrtc.nvrtcAddNameExpression(program, name.encode()))
        options = [*flags, "--ptxas-options=-v"]
        failed = nvrtc.nvrtcCompileProgram(program, len(options), _strings(options))
        log = _text(nvrtc, program, "ProgramLog").decode(errors="replace")
        if failed:
            raise SourceRefused(f"{log or _words(nvrtc, failed)}")
        symbols = {}
        for name in names:
            lowered = ctypes.c_char_p()
            _check(nvrtc, nvrtc.nvrtcGetLoweredName(program, name.encode(), ctypes.byref(lowered)))
            symbols[name] = (lowered.value or b"").decode()
        ptx = _text(nvrtc, program, "PTX").decode(errors="replace")
        return _text(nvrtc, program, "CUBIN", ends=False), symbols, ptx, log
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


@lru_cache(maxsize=4)
def version(library: str) -> str:
    """Return for example "13.0"; "" where the library cannot be loaded."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    try:
        nvrtc = _load(library)
    except NativeError:
        return ""
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


@lru_cache(maxsize=4)
def _load(library: str) -> Any:
    # NVRTC looks its builtins library up by bare name at first use, and finds it only if it is
    # loaded already.
    try:
        for builtins in sorted(
            glob.glob(os.path.join(os.path.dirname(library), "libnvrtc-builtins.so*"))
        ):
            ctypes.CDLL(builtins)
        nvrtc = ctypes.CDLL(library)
    except OSError as error:
        raise NativeError(f"NVRTC cannot be loaded: {error}") from error
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
    return nvrtc


def _text(nvrtc: Any, program: ctypes.c_void_p, what: str, *, ends: bool = True) -> bytes:
    """Return one of the program's products. ends: drop the zero byte at the end of a text."""
    size = ctypes.c_size_t()
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    data = ctypes.create_string_buffer(max(1, size.value))
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, data))
    return data.raw[: size.value - 1] if ends and size.value else data.raw[: size.value]


def _strings(texts: Sequence[str]) -> Any:
    return (ctypes.c_char_p * len(texts))(*(t.encode() for t in texts))


def _check(nvrtc: Any, code: int) -> None:
    if code:
        raise NativeError(f"NVRTC: {_words(nvrtc, code)}")


def _words(nvrtc: Any, code: int) -> str:
    return str((nvrtc.nvrtcGetErrorString(code) or b"unknown error").decode())
