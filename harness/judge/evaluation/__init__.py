"""The stages of one evaluation in their order, and what is asked of several candidates or of a
compiler alone."""
