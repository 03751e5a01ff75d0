"""Signs people in by name and password, and changes or resets passwords.

``actors.login_link_consume`` handles one-time links. A person who forgot a password gets a link by mail that works
once, for 20 minutes (OWASP ASVS 5.0 6.4.3). The answer does not reveal whether an account exists: it is always equal
and equally fast, and the mail leaves afterwards. The link replaces no second factor; a person who lost theirs asks an
owner.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from hashlib import sha256

from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage
from django.db import close_old_connections, transaction
from django.db.models import Q
from django.views.decorators.debug import sensitive_variables

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.values.units import US
from fabric.models import Identity, LoginLink, Member
from fabric.services.actors import TOKEN_CHARS_MAX, workspace_default
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.notifications.member_mail import mails
from fabric.services.people.sign_in.second_factors import comes_by_provider
from fabric.services.people.sign_in.sessions import sign_ins_end_all
from fabric.services.rights import fresh_wanted


@sensitive_variables("password")
def password_sign_in(*, name: str, password: str) -> User | None:
    """Return the active user with this name and password; None: there is none, or it is an account of programs.

    It takes equally long for an unknown name and a wrong password. The caller records the sign-in (``sign_in_told``).
    """
    user = authenticate(username=name, password=password)
    if not isinstance(user, User) or Member.objects.filter(user=user, service=True, removed_at__isnull=True).exists():
        return None
    return user


def sign_in_told(user: User, way: str) -> None:
    """Record in the audit stream that a user signed in. ``way``: the means."""
    who = Actor(name=user.username, workspace_id=workspace_default())
    audit_record(actor=who, act=Act.SIGNED_IN, subject=who.name, by=way)


@sensitive_variables("old", "new")
def password_change(*, actor: Actor, user: User, old: str, new: str, mark: str = "") -> list[str]:
    """Set another password for the signed-in actor, who is ``user``, and return the marks of the ended sign-ins.

    All their sign-ins but ``mark`` end, and so do their unused sign-in links. A first password needs a fresh sign-in
    of the person's own: the maker of a link would know the password. Raises Refused: forbidden (no person's own
    sign-in, or an old one), invalid (old, password).
    """
    if actor.kind != "person" or actor.via or user.get_username() != actor.name:
        message = "people change their own password, signed in; a token cannot"
        raise Refused(message, code="forbidden", field="actor")
    if comes_by_provider(user):
        message = f"{actor.name} signs in by the provider of identities: there is no password here"
        raise Refused(message, code="forbidden", field="actor")
    if user.has_usable_password():
        if not user.check_password(old):
            raise Refused("this is not your password: type the one that you sign in with", code="invalid", field="old")
    else:
        fresh_wanted(actor, "choose a first password")
    if old and new == old:
        raise Refused("this is the password that you have: choose another one", code="invalid", field="password")
    password_fits(new, user)
    with transaction.atomic():
        user.set_password(new)
        user.save(update_fields=["password"])
        LoginLink.objects.filter(user=user, used_at__isnull=True).delete()
        audit_record(actor=actor, act=Act.PASSWORD_CHANGED, subject=actor.name)
        return sign_ins_end_all(actor, user, but=mark)


@sensitive_variables("password")
def password_fits(password: str, user: User) -> None:
    """Raise Refused invalid for a password that is easily guessed, each broken rule a problem."""
    try:
        validate_password(password, user)
    except ValidationError as error:
        problems = tuple(error.messages)
        raise Refused(" ".join(problems), code="invalid", field="password", problems=problems) from None


log = logging.getLogger(__name__)

LINK_S = 1_200
PURPOSE = "password"
TEXT = """A new password was requested for {name} at {base}.

Open this link within 20 minutes, press the button on the page, and choose one:

{link}

It works once. Your other sign-ins end when you choose. If you did not request it, do nothing: nothing has changed.
"""


def password_link_send(wanted: str, *, link: Callable[[str], str]) -> None:
    """Mail a link to the user with this name or mail address, if there is one, and return before looking. ``link``:
    makes the address of a token.
    """
    threading.Thread(target=_send, args=(wanted[:254], link), name="password link", daemon=True).start()


@sensitive_variables("token")
def find_password_link(token: str) -> User | None:
    """Return the user of this link without using it up; None: it was used, has expired or never existed."""
    row = _fresh(token).select_related("user").first() if token and len(token) <= TOKEN_CHARS_MAX else None
    return row.user if row is not None else None


@sensitive_variables("token", "password")
def password_link_use(token: str, password: str) -> list[str] | None:
    """Set the password of the link's person and end their sign-ins. Returns their marks; None for an invalid link.

    Raises Refused invalid (password).
    """
    user = find_password_link(token)
    if user is None:
        return None
    password_fits(password, user)
    with transaction.atomic():
        # The update decides: of two who come at once, one finds it unused.
        if _fresh(token).update(used_at=_now()) != 1:
            return None
        user.set_password(password)
        user.save(update_fields=["password"])
        LoginLink.objects.filter(user=user, used_at__isnull=True).delete()
        who = Actor(name=user.username, workspace_id=workspace_default(), via="mail")
        audit_record(actor=who, act=Act.PASSWORD_CHANGED, subject=who.name)
        return sign_ins_end_all(who, user)


def _send(wanted: str, link: Callable[[str], str]) -> None:
    try:
        user = _whose(wanted)
        if user is not None and mails():
            _mail(user, link(_make_link_token(user)))
    except Exception as error:  # noqa: BLE001 - no caller waits for it, so only the log can report it.
        log.warning("a link for another password was not mailed: %s", type(error).__name__)
    finally:
        close_old_connections()


def _whose(wanted: str) -> User | None:
    """Return the one member with this name or address who may sign in by a password. None: no member, or several with
    the address.
    """
    given = wanted.strip()
    named = Q(user__username=given) | (Q(user__email__iexact=given) if "@" in given else Q(pk__in=[]))
    rows = Member.objects.filter(named, workspace_id=workspace_default(), removed_at__isnull=True, service=False)
    rows = rows.filter(user__is_active=True).exclude(user__email="").exclude(user__in=Identity.objects.values("user"))
    found = list(rows.select_related("user")[:2])
    return found[0].user if len(found) == 1 else None


def _make_link_token(user: User) -> str:
    token, now = secrets.token_urlsafe(32), _now()
    with transaction.atomic():
        LoginLink.objects.filter(Q(expires_at__lte=now) | Q(user=user, purpose=PURPOSE)).delete()
        LoginLink.objects.create(
            workspace_id=workspace_default(),
            user=user,
            token_hash=_hash(token),
            expires_at=now + LINK_S * US,
            purpose=PURPOSE,
        )
        who = Actor(name=user.username, workspace_id=workspace_default(), via="mail")
        audit_record(actor=who, act=Act.PASSWORD_LINK_SENT, subject=who.name)
    return token


def _mail(user: User, address: str) -> None:
    text = TEXT.format(name=user.username, base=settings.FABRIC_PUBLIC_URL, link=address)
    EmailMessage("Another password", text, settings.DEFAULT_FROM_EMAIL, [user.email]).send()


def _fresh(token: str):  # type: ignore[no-untyped-def]
    return LoginLink.objects.filter(
        token_hash=_hash(token), purpose=PURPOSE, used_at__isnull=True, expires_at__gt=_now(), user__is_active=True
    )


def _hash(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _now() -> int:
    return time.time_ns() // 1_000
