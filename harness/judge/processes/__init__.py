"""The life of workers: fork servers, starting and confining, deadlines, how one ends, the build
service, and what an untrusted process says, taken apart with suspicion."""
