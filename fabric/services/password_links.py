"""Another password for who has forgotten theirs: a link by mail that works once, for 20 minutes (OWASP ASVS 5.0 6.4.3).

Whether somebody has an account is not told: the answer is the same and as fast, and the mail leaves afterwards. The link stands in for no second
factor; who lost that asks an owner.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from hashlib import sha256

from django.conf import settings
from django.contrib.auth.models import User
from django.core.mail import EmailMessage
from django.db import close_old_connections, transaction
from django.db.models import Q
from django.views.decorators.debug import sensitive_variables

from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.models import Identity, LoginLink, Member
from fabric.services.audit import audit_record
from fabric.services.notification_members import mails
from fabric.services.sign_in import password_fits
from fabric.services.sign_ins import sign_ins_end_all
from fabric.services.workspaces import TOKEN_CHARS_MAX, workspace_default

log = logging.getLogger(__name__)

LINK_S = 1_200
PURPOSE = "password"
US = 1_000_000
TEXT = """Somebody asked for another password for {name} at {base}.

Open this link within 20 minutes, on the page press the button, and choose one:

{link}

It works once. Your other sign-ins end when you choose. If it was not you, do nothing: nothing was changed.
"""


def password_link_send(wanted: str, *, link: Callable[[str], str]) -> None:
    """Mails a link to whoever has this name or mail address, if somebody has. ``link``: the address of a token. Returns before that is looked at."""
    threading.Thread(target=_send, args=(wanted[:254], link), name="password link", daemon=True).start()


@sensitive_variables("token")
def password_link_of(token: str) -> User | None:
    """Whose link this is, which is not used up by it; None: it was used, has expired or never was."""
    row = _fresh(token).select_related("user").first() if token and len(token) <= TOKEN_CHARS_MAX else None
    return row.user if row is not None else None


@sensitive_variables("token", "password")
def password_link_use(token: str, password: str) -> list[str] | None:
    """Sets the password of the link's person and ends their sign-ins. Returns the marks of those; None for a link that works no more.

    Raises Refused invalid (password).
    """
    user = password_link_of(token)
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
            _mail(user, link(_made(user)))
    except Exception as error:  # noqa: BLE001 - nobody waits for it, so it can only be told here.
        log.warning("a link for another password was not mailed: %s", type(error).__name__)
    finally:
        close_old_connections()


def _whose(wanted: str) -> User | None:
    """The one member with this name or address, who may sign in by a password. An address that several have is nobody's."""
    given = wanted.strip()
    named = Q(user__username=given) | (Q(user__email__iexact=given) if "@" in given else Q(pk__in=[]))
    rows = Member.objects.filter(named, workspace_id=workspace_default(), removed_at__isnull=True, service=False)
    rows = rows.filter(user__is_active=True).exclude(user__email="").exclude(user__in=Identity.objects.values("user"))
    found = list(rows.select_related("user")[:2])
    return found[0].user if len(found) == 1 else None


def _made(user: User) -> str:
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
