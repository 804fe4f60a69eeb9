"""Problems of a KernelBench checkout as tasks: read, judged, mutated, remembered, and put before
KernelBench's own evaluation."""
