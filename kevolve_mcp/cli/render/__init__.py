"""Renderers: from data to rich renderables or plain lines. They read no clock, file or terminal."""
