"""Tests of who may use an address call it as programs do."""

from tests.console.api.conftest import program, signed_in, token

__all__ = ["program", "signed_in", "token"]
