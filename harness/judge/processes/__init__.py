"""The processes of workers: fork servers, start and confinement, deadlines, endings, the build
service, and the parsing of what untrusted processes report."""
