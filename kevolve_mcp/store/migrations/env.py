"""Run by alembic; the connection and its transaction are the caller's."""

from alembic import context

from kevolve_mcp.store.schema import metadata

attributes = context.config.attributes
context.configure(
    connection=attributes["connection"],
    target_metadata=metadata,
    version_table=attributes["version_table"],
    render_as_batch=True,
    transactional_ddl=False,  # no own transaction: the caller's covers all versions
)
context.run_migrations()
