"""What the judge and its workers both speak: frames, tensors as named buffers, memory of a device
that is handed over, notes on launched kernels. Decides nothing and runs nobody's code."""
