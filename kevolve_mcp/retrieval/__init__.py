"""Passages found by meaning, beside words and signals: sentence-transformers makes vectors, a file
keeps them for this machine or a Chroma server for a team.

Off unless the setting `vectors` names a model. `nearness` gives the library what it needs; nothing
heavy is imported before the first search with words, and then in a thread of its own. `state` says
for `kevolve doctor` what is there and what is missing.
"""

from .meaning import Meaning, nearness
from .models import State, state

__all__ = ["Meaning", "State", "nearness", "state"]
