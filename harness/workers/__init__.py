"""The judge's helper processes: the fork server, and the confined workers that run tasks,
candidates and compilers."""
