"""The judge: the process that decides about candidates. It owns clocks, seeds, locks and
comparisons, and imports neither task nor candidate."""
