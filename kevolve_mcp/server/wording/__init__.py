"""How answers read: one module per kind of answer, pure functions from views to phrases."""
