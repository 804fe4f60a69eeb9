"""The processes that run things: fork server, confined workers, reference worker, and the frames
between them and the judge."""
