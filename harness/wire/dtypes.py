"""Dtypes in which torch stores numbers but hardly computes: unsigned integers, floats of 8 bits,
and exponents of 8 bits. Their tensors are compared in another dtype that shows the same values."""

from __future__ import annotations

from typing import Any

# integers with the same bytes; a scale of float8_e8m0fnu is a power of two without sign or zero, so
# that rounding has no size and only its exponent can be compared
_SAME_BYTES = {
    "uint16": "int16",
    "uint32": "int32",
    "uint64": "int64",
    "float8_e8m0fnu": "uint8",
}
_EXACT = {"bool", "uint8", "int8", "int16", "int32", "int64", *_SAME_BYTES}
# unit roundoff: half the distance from 1 to the next number
ROUNDOFF = {
    "float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8,
    "float8_e4m3fn": 2.0**-4, "float8_e4m3fnuz": 2.0**-4, "float8_e5m2": 2.0**-3,
    "float8_e5m2fnuz": 2.0**-3,
    "complex128": 2.0**-53, "complex64": 2.0**-24, "complex32": 2.0**-11,
}  # fmt: skip


def name_of(dtype: Any) -> str:
    """Return the name of a dtype without torch's prefix."""
    return str(dtype).removeprefix("torch.")


def objection(dtype: Any) -> str:
    """Return why outputs of this dtype cannot be compared, and what to return instead; "" if they
    can."""
    name = name_of(dtype)
    if name in ROUNDOFF or name in _EXACT:
        return ""
    return (
        f"{name} holds no numbers that the framework can convert or compare; return the bytes "
        "instead (.view(torch.uint8)), or the values in another dtype"
    )


def rounds(dtype: Any) -> bool:
    """Return whether values of this dtype are rounded real or complex numbers, which are compared
    within a tolerance; others are compared exactly."""
    return name_of(dtype) in ROUNDOFF


def is_finite(tensor: Any) -> Any:
    """Return for each element whether it is neither infinite nor NaN, in any dtype."""
    return comparable(tensor).isfinite()


def comparable(tensor: Any) -> Any:
    """Return a tensor of the same numbers that torch can compare, subtract and index: floats of 8
    bits in single precision, unsigned integers and exponents as integers with the same bytes. Other
    tensors are returned unchanged."""
    tensor = as_integers(tensor)
    return tensor.float() if is_float8(tensor) else tensor


def is_float8(tensor: Any) -> bool:
    """Return whether a tensor holds floating values of 8 bits."""
    return bool(tensor.is_floating_point() and tensor.element_size() == 1)


def as_integers(tensor: Any) -> Any:
    """Return unsigned integers and exponents as integers in the same memory, other tensors
    unchanged."""
    import torch

    integer = _SAME_BYTES.get(name_of(tensor.dtype))
    return tensor if integer is None else tensor.view(getattr(torch, integer))
