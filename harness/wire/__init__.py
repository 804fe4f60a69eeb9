"""What the judge and its workers both speak: frames, files in memory, tensors as named buffers in
them, memory of a device that is handed over, notes on launched kernels. Decides nothing and runs
nobody's code."""
