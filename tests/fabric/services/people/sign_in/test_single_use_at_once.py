"""A code, link or invitation lets one person in once, however many come with it in one moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pyotp
import pytest
from django.db import connection

from fabric.services.actors import login_link_consume, login_link_create, owner_actor
from fabric.services.people.invitations import invitation_accept, invitation_create
from fabric.services.people.sign_in.credentials import _make_link_token, password_link_use
from fabric.services.people.sign_in.second_factors import code_use
from tests.fabric.services.at_once import PATIENCE_S, at_once
from tests.fabric.services.people.sign_in.test_second_factors import with_app, with_password

pytestmark = pytest.mark.django_db(transaction=True)
CALLERS = 8
NEW = "four new words without any sense"


def a_code_of_an_app(user: Any) -> Callable[[], Any]:
    secret, _ = with_app(user)
    return partial(code_use, user, pyotp.TOTP(secret).now())


def a_recovery_code(user: Any) -> Callable[[], Any]:
    return partial(code_use, user, with_app(user)[1][0])


def a_sign_in_link(user: Any) -> Callable[[], Any]:
    return partial(login_link_consume, login_link_create(user))


def a_password_link(user: Any) -> Callable[[], Any]:
    return partial(password_link_use, _make_link_token(user), NEW)


WAYS = (a_code_of_an_app, a_recovery_code, a_sign_in_link, a_password_link)


def together(acts: list[Callable[[], Any]]) -> list[Any]:
    """Return what each gave, none of whom writes before all have read."""
    read = threading.Barrier(len(acts))

    def one(act: Callable[[], Any]) -> Any:
        waited = False

        def before(execute: Any, sql: str, *given: Any) -> Any:
            nonlocal waited
            if not waited and not sql.startswith("SELECT"):
                waited = True
                read.wait(PATIENCE_S)
            return execute(sql, *given)

        with connection.execute_wrapper(before):
            return act()

    return at_once([partial(one, act) for act in acts])


@pytest.mark.parametrize("way", WAYS)
def test_it_works_for_one_of_eight(way):
    given = together([way(with_password())] * CALLERS)
    assert sum(one not in ("", None) for one in given) == 1, given


def test_an_invitation_makes_one_member():
    token = invitation_create(actor=owner_actor(), roles=["viewer"]).token
    accept = [partial(invitation_accept, token=token, name=f"rosa{n}", password=NEW) for n in range(CALLERS)]
    assert sum(hasattr(one, "username") for one in together(accept)) == 1
