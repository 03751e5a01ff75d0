"""The function by which PostgreSQL admits a run while it is inserted. SQLite has one writer, and asks in its transaction."""

ADMISSION = """
    CREATE OR REPLACE FUNCTION fabric_admits_start(of_workspace text, of_fabric text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE AS $$
    BEGIN
        PERFORM pg_advisory_xact_lock_shared(hashtextextended('starts ' || of_workspace, 12));
        RETURN NOT EXISTS (
            SELECT FROM fabric_start_stop
            WHERE workspace_id = of_workspace AND ended_at IS NULL AND (fabric_id IS NULL OR fabric_id = of_fabric)
            AND (until_at IS NULL OR until_at > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
        );
    END $$
"""
"""A stop takes the same lock alone. The statement has its snapshot before it has the lock; a volatile function reads
with a newer one. So a start either commits before the stop, or finds it.
"""


def install_admission(apps, schema_editor):
    """Makes the function."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(ADMISSION, params=None)
