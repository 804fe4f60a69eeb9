"""Opening a task: its confined workers, its input sets and expected results, refusing what a fake
would pass, and what an opening found out, remembered."""
