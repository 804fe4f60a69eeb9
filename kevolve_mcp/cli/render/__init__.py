"""Renderers: data in, rich renderables or plain lines out. They read no clock, no file and no
terminal."""
