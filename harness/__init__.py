"""Evaluates one candidate on one target. Needs the standard library, torch and (where used) triton;
Python 3.10 or newer."""
