"""What this machine and its devices offer: environment, levels, ceilings, locks, memory, health."""
