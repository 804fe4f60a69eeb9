"""The evaluation of timed rounds: values and statistics, computed from figures alone."""
