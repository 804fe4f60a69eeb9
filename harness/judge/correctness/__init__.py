"""Correctness of results, from their bytes alone: the error of a result, the allowed error, and
where and how it differs. Independent of processes and clocks."""
