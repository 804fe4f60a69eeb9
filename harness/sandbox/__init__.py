"""A process confines itself: namespaces, file rules, the filter of system calls, limits, and the
process that waits beside it. Knows neither judge nor worker."""
