"""What rounds of calls come to: their values and their statistics, from figures alone."""
