"""Self-confinement of a process: namespaces, file rules, the filter of system calls, limits, and
the process that watches it. Independent of the judge and its workers."""
