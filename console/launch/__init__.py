"""The launcher runs `up`, `test` and every other command, with the standard library only."""
