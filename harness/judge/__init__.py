"""The process that decides. It owns clocks, seeds, locks and comparison, and imports neither task
nor candidate."""
