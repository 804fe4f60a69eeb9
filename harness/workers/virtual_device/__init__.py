"""Candidate workers for a device that the machine need not have: kernels are interpreted, or
compiled and recorded instead of launched."""
