"""Evaluate one candidate on one target. Needs Python 3.10 or newer, torch and, where it is used,
triton."""
