"""The formats that the judge and its workers share: message frames, files in memory, tensors as
named buffers in these files, shared device memory, records of launched kernels. This package makes
no decision and runs no code of candidates or tasks."""
