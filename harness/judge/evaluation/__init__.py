"""The stages of one evaluation in order, comparisons of several candidates, and compile-only
evaluations."""
