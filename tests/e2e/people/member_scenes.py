"""Scenes of members and invitations, by an installation of its own: the owner alone, many, what is refused, and what strangers see."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page

from tests.e2e.installation import Installation
from tests.e2e.scenes import Scene

PASSWORD = "four-dull-words-in-a-row"
MEMBERS = """
import time
from django.contrib.auth.models import User
from django.utils import timezone
from fabric.models import Member
from fabric.services.people.invitations import invitation_create
from fabric.services.people.members import member_roles_set, service_create
from fabric.services.people.tokens import token_create
from fabric.services.actors import owner_actor
from tests.people import member
actor = owner_actor()
people = {
    "dana.whitfield": ("reviewer", "finance"), "erik": ("editor",), "farah.n": ("operator", "reviewer"), "gunnar": ("owner", "safety"),
    "hana": ("auditor",), "ines.de-la-cruz-montenegro": ("reviewer", "legal", "legal-europe"), "jo": ("viewer",), "kai": ("viewer",),
}
for n, (name, roles) in enumerate(people.items()):
    user = member(name, *roles, is_active=name != "kai")
    if n % 3:
        User.objects.filter(pk=user.pk).update(last_login=timezone.now() - timezone.timedelta(minutes=37 * (n * n + 1)))
    Member.objects.filter(user=user).update(created_at=time.time_ns() // 1000 - n * 86_400_000_000, created_by="owner")
erik = User.objects.get(username="erik")
erik.set_password("four-dull-words-in-a-row")
erik.save()
for name, roles in {"nightly-import": ("operator",), "ci": ("viewer", "importer")}.items():
    service_create(actor=actor, name=name, roles=roles)
    token_create(actor=actor, name=f"{name}-token", user=name)
invitation_create(actor=actor, roles=["reviewer", "finance"], email="rosa.lindqvist@example.org", days=7)
invitation_create(actor=actor, roles=["viewer"], days=1)
print(invitation_create(actor=actor, roles=["reviewer", "safety", "legal"], email="sam@example.org").token)
"""

ALONE = (
    Scene("members-alone", "/people/members"),
    Scene("members-sign-in-again-by-link", "/login?again=1&next=/reviews"),
)


def many(home: Installation) -> str:
    """Members of every kind; the path of an invitation."""
    return f"/people/invitations#{home.manage('shell', '--verbosity', '0', '-c', MEMBERS).split()[-1]}"


def password_given(home: Installation, name: str) -> None:
    """Lets a member sign in by a password from now on."""
    given = f"one = User.objects.get(username={name!r}); one.set_password({PASSWORD!r}); one.save()"
    home.manage("django", "shell", "--verbosity", "0", "-c", f"from django.contrib.auth.models import User; {given}")


def _filled(button: str, **fields: str) -> Callable[[Page], None]:
    def act(page: Page) -> None:
        for name, value in fields.items():
            page.locator(f"#{name}").fill(value)
        page.locator(f"#{button}").click()
        page.wait_for_load_state("load")

    return act


def _token_made(page: Page) -> None:
    """Each width makes one of its own."""
    assert page.viewport_size
    _filled("token-make", **{"token-name": f"nightly-{page.viewport_size['width']}", "token-days": "90"})(page)


def _removing(page: Page) -> None:
    page.locator("#remove-open").click()


def _removed(page: Page) -> None:
    _removing(page)
    page.locator("#remove").click()
    page.locator(".banner[role=alert]").wait_for()


def full(home: Installation) -> list[Scene]:
    """Return what an owner sees of many."""
    ids = {str(name): f"/people/members/{one}" for name, one in home.stored("SELECT name, id FROM fabric_member")}
    return [
        Scene("members", "/people/members"),
        Scene(
            "members-invite-refused",
            "/people/members",
            _filled("invite-make", **{"invite-email": "rosa@example", "invite-days": "90"}),
            422,
        ),
        Scene("members-service-refused", "/people/members", _filled("service-make", **{"service-name": "erik"}), 409),
        Scene("members-invited", "/people/members", _filled("invite-make", **{"invite-email": "vic@example.org"})),
        Scene("member", ids["ines.de-la-cruz-montenegro"]),
        Scene("member-removing", ids["farah.n"], _removing),
        Scene("member-service", ids["nightly-import"]),
        Scene(
            "member-token-refused",
            ids["nightly-import"],
            _filled("token-make", **{"token-name": "nightly import", "token-days": "90"}),
            422,
        ),
        Scene("member-token", ids["ci"], _token_made),
        Scene("account-first", "/people/account"),
        Scene("member-owner-stays", ids["owner"], _removed, 409),
    ]


def looking(home: Installation) -> list[Scene]:
    """Return what a member sees who is no owner."""
    ((one,),) = home.stored("SELECT id FROM fabric_member WHERE name = 'gunnar'")
    wrong = {"old": "not this one", "new-password": "password", "again": "password"}
    return [
        Scene("account", "/people/account"),
        Scene("security", "/people/security"),
        Scene("account-refused", "/people/account", _filled("password-set", **wrong), 422),
        Scene("members-looking-on", "/people/members"),
        Scene("member-looking-on", f"/people/members/{one}"),
    ]


def stranger(invitation: str) -> list[Scene]:
    """Return what a visitor sees who is not signed in."""
    wrong = {"name": "sam", "password": PASSWORD, "again": "something-else"}
    return [
        Scene("sign-in-page", "/login"),
        Scene("sign-in-refused", "/login", lambda page: _entered(page, "erik", "wrong"), 422),
        Scene("invitation", invitation),
        Scene("invitation-refused", invitation, lambda page: _accepted(page, **wrong), 422),
        Scene("invitation-used", "/people/invitations", lambda page: _opened(page, "used"), 410),
        Scene("sign-in-link", "/login/link#used"),
        Scene("password-forgotten", "/login/recover"),
    ]


def _opened(page: Page, token: str) -> None:
    page.locator("#token").fill(token)
    page.get_by_role("button", name="Open the invitation").click()


def _entered(page: Page, name: str, password: str) -> None:
    page.locator("#name").fill(name)
    page.locator("#password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.locator(".banner[role=alert]").wait_for()


def _accepted(page: Page, **fields: str) -> None:
    for name, value in fields.items():
        page.locator(f"#{name}").fill(value)
    page.get_by_role("button", name="Accept").click()
    page.locator("#e-again").wait_for()
