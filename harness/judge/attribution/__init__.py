"""Who did the work: the candidate's own kernels or the framework; which kernels ran, and what a
compiler made of them."""
