"""The tests of the API share programs with tokens, and the pages' fabrics and people."""

from __future__ import annotations

import pytest
from django.test import Client

from fabric.core.people.actor import Actor
from fabric.core.people.scopes import Scope
from fabric.services.people.tokens import token_create
from tests.console.api.client import Program
from tests.console.conftest import _fresh_wiring, actor, browser, doubtful, owner, paying, small, stranger

__all__ = ["_fresh_wiring", "actor", "browser", "doubtful", "owner", "paying", "small", "stranger"]


@pytest.fixture
def token(actor: Actor) -> str:
    """A token that may do everything."""
    return token_create(actor=actor, name="all", scopes=tuple(Scope)).secret


@pytest.fixture
def program(token: str) -> Program:
    """A program that may do everything."""
    return Program(token)


@pytest.fixture
def signed_in(browser: Client) -> Program:
    """The same calls from a page: the person signed in just now."""
    found = Program()
    found.client = browser
    return found
