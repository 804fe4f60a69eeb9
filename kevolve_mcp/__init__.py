"""KEvolve: writes fast kernels automatically and proves that they are fast."""

__version__ = "0.1.0"
