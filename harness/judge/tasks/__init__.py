"""Opening of tasks: confined workers, input sets and expected results, refusal of tasks that a fake
would pass, and the cache of earlier openings."""
