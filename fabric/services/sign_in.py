"""Signing in by name and password, and changing one's own; by a one-time link it is ``workspaces.login_link_consume``."""

from __future__ import annotations

from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.views.decorators.debug import sensitive_variables

from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.models import LoginLink, Member
from fabric.services.audit import audit_record
from fabric.services.errors import Refused
from fabric.services.rights import fresh_wanted
from fabric.services.second_factors import comes_by_provider
from fabric.services.sign_ins import sign_ins_end_all
from fabric.services.workspaces import workspace_default


@sensitive_variables("password")
def password_sign_in(*, name: str, password: str) -> User | None:
    """The active user with this name and password; None: there is none such, or it is an account of programs. Whoever lets them in says so (``sign_in_told``).

    It takes as long for a name that nobody has as for a wrong password.
    """
    user = authenticate(username=name, password=password)
    if not isinstance(user, User) or Member.objects.filter(user=user, service=True, removed_at__isnull=True).exists():
        return None
    return user


def sign_in_told(user: User, way: str) -> None:
    """Notes in the audit stream that somebody signed in. ``way``: by what."""
    who = Actor(name=user.username, workspace_id=workspace_default())
    audit_record(actor=who, act=Act.SIGNED_IN, subject=who.name, by=way)


@sensitive_variables("old", "new")
def password_change(*, actor: Actor, user: User, old: str, new: str, mark: str = "") -> list[str]:
    """Gives the signed-in actor, who is ``user``, another password. Their sign-ins but ``mark`` end (the marks of those), and their sign-in links that
    were not used yet.

    A first password needs a fresh sign-in of the person's own: the maker of a link would know the password. Raises Refused: forbidden (no person's own sign-in, or an old one), invalid (old, password).
    """
    if actor.kind != "person" or actor.via or user.get_username() != actor.name:
        message = "a password is for whoever it is of to change, signed in; a token cannot"
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
    """Refused invalid for a password that is easily guessed, each rule that it breaks a problem."""
    try:
        validate_password(password, user)
    except ValidationError as error:
        problems = tuple(error.messages)
        raise Refused(" ".join(problems), code="invalid", field="password", problems=problems) from None
