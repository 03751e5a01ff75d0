"""Taking an installation away in one file, and making one from it (docs/deployment.md "Backup and restore")."""
