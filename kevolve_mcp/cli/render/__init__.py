"""Renderers: data in, rich renderables or plain lines out. They read no clock, no file and no terminal."""

from .board import Board, board_view, plain_line
from .cases import cases_table, naive_note
from .figures import interval_text, microseconds, speedup_text
from .machine import machine_view
from .report import report_json, report_view
from .tree import sessions_table, tree_view
from .verdicts import verdict_view

__all__ = [
    "Board",
    "board_view",
    "cases_table",
    "interval_text",
    "machine_view",
    "microseconds",
    "naive_note",
    "plain_line",
    "report_json",
    "report_view",
    "sessions_table",
    "speedup_text",
    "tree_view",
    "verdict_view",
]
