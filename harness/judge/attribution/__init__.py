"""Attribution of the work to the candidate's own kernels or to the framework; the kernels that ran,
and their compiled code."""
