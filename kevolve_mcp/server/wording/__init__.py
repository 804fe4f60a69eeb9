"""The texts of answers: one module per kind of answer, pure functions from views to phrases."""
