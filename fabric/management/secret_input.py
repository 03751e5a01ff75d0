"""Reads a secret from a place that other users of the machine cannot read."""

from __future__ import annotations

import getpass
import os
import sys

from fabric.services.errors import Refused


def read_secret(variable: str, field: str, chars_max: int) -> str:
    """Return the value of a variable, or else of standard input; a terminal does not echo it. Raises Refused invalid
    where the variable is not set.
    """
    if variable:
        if variable not in os.environ:
            raise Refused(f"--from-env: {variable[:80]} is not set", code="invalid", field=field)
        return os.environ[variable]
    if sys.stdin.isatty():
        return getpass.getpass(f"{field}: ")
    return sys.stdin.read(4 * chars_max)
