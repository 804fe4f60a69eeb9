"""Timing of candidates against baselines: paired rounds in fresh processes, from samples to an
interval and a verdict."""
