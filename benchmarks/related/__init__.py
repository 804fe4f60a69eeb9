"""Families of related tasks, each with a plain kernel to start from: what `benchmarks/learning.py`
learns on and is tried on."""

from .families import FAMILIES, QUICK, Related

__all__ = ["FAMILIES", "QUICK", "Related"]
