"""This machine and its devices: environment, isolation levels, ceilings, locks, memory, health."""
