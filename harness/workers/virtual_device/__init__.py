"""Candidate workers for a device that need not be here: kernels are interpreted, or compiled and
noted instead of launched."""
