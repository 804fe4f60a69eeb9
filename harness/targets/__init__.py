"""Device families: facts, measured ceilings."""
