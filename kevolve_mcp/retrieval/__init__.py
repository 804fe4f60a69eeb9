"""Passages found by meaning, beside words and signals: sentence-transformers makes vectors, a file
keeps them for this machine or a Chroma server for a team.

Off unless the setting `vectors` names a model. `nearness` provides what the library needs; nothing
heavy is imported before the first search with words, and then in a separate thread. `state` tells
`kevolve doctor` what is present and what is missing.
"""

from .meaning import Meaning, nearness
from .models import State, state

__all__ = ["Meaning", "State", "nearness", "state"]
