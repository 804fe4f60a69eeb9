"""The migrations from one schema to the next, run by alembic."""
