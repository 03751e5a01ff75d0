"""A form shows each place of a fabric's draft and turns what was sent into edits."""
