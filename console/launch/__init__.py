"""Everything before Django: environments, the `up` supervisor and the `test` command. Standard library only."""
