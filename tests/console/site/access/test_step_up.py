"""An act that gives others a way in, or takes theirs, wants a fresh sign-in, as high-stakes answers do: members, tokens, keys, one's mail address.

So do the policy and legal holds.

Total over the addresses: whatever changes one of those has its row here, on the pages and in the API.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from console.site.access.callers import SCOPES
from console.site.access.rights import CHANGES
from fabric.core.people.roles import Right
from fabric.core.people.scopes import Scope
from fabric.models import AuditLine, ChatRoute, Hold, Member
from fabric.services.actors import owner_actor
from fabric.services.models.keys import key_set
from fabric.services.people.members import login_link_for
from tests.people import aged, member, signed_in, token_of

PLACE = {"provider": "openai", "host": "https://api.example.org/v1"}
SECRET = {**PLACE, "key": "sk-0123456789abcdef"}
REFERER = "http://127.0.0.1/people/members"
HOLD = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
ROUTE = "0b1c2d3e4f5a60718293a4b5c6d7e8f9"
CHANNEL = {"channel": "slack", "address": "https://hooks.slack.com/services/T0/B0/x"}
MAIL = {"wants": ["review"], "email": "elsewhere@example.org"}

PAGES: Mapping[str, tuple[tuple[str, ...], Mapping[str, Any]]] = {
    "member-invite": ((), {"roles": ["owner"]}),
    "member-service": ((), {"name": "nightly", "roles": ["operator"]}),
    "member": (("vera",), {"act": "roles", "before": "viewer", "roles": ["owner"]}),
    "member-sign-ins": (("vera",), {"act": "end"}),
    "member-sign-ins factors": (("vera",), {"act": "factors"}),
    "member remove": (("vera",), {"act": "remove"}),
    "token-create": (("owner",), {"name": "another", "scopes": ["read"], "days": "30"}),
    "model-key": ((), SECRET),
    "model-key-delete": ((), PLACE),
    "notifications-mine": ((), MAIL),
    "notifications-channels": ((), CHANNEL),
    "notifications-channel-remove": ((ROUTE,), {}),
    "policy": ((), {"expect": "0", "run_usd": "5"}),
    "audit-holds place": ((), {"act": "place", "about": "person", "name": "vera", "reason": "Case 12."}),
    "audit-holds rule": ((), {"act": "rule", "kind": "*", "days": "90"}),
    "audit-holds lift": ((), {"act": "lift", "hold": HOLD, "reason": "It is over."}),
}
API: Mapping[str, tuple[tuple[str, ...], Mapping[str, Any], int]] = {
    "api-invitations": ((), {"roles": ["owner"]}, 200),
    "api-member-services": ((), {"name": "nightly", "roles": ["operator"]}, 200),
    "api-member-roles": (("vera",), {"roles": ["owner"]}, 200),
    "api-member-remove": (("vera",), {}, 200),
    "api-tokens": ((), {"name": "another", "scopes": ["read"]}, 403),
    "api-model-key": ((), SECRET, 200),
    "api-model-key-delete": ((), PLACE, 200),
    "api-notifications-mine": ((), MAIL, 403),
    "api-notifications-channels": ((), CHANNEL, 403),
    "api-notifications-channel-remove": ((ROUTE,), {}, 200),
    "api-policy": ((), {"policy": {"caps": {"run_usd_micros": 5_000_000}}, "expect": 0}, 200),
    "api-audit-holds": ((), {"about": "person", "name": "vera", "reason": "Case 12."}, 200),
    "api-audit-hold-lift": ((HOLD,), {"reason": "It is over."}, 200),
}
"""By operation: what is sent, and what a token with the scope ``manage`` is answered."""
NONE_WANTED = {"api-invitation-revoke", "api-token-revoke"}
"""An act that only ends a way in is open to each member."""


@pytest.fixture
def vera(owner: User) -> User:
    key_set(actor=owner_actor(), **SECRET)
    routed = {"fabric": "ledger", "channel": "slack", "host": "https://hooks.slack.com", "sealed": b"sealed"}
    ChatRoute.objects.create(id=ROUTE, workspace_id=owner_actor().workspace_id, added_at=1, added_by="owner", **routed)
    placed = {"workspace_id": owner_actor().workspace_id, "placed_by": "owner", "placed_at": 1, "reason": "Case 11."}
    Hold.objects.create(id=HOLD, about="fabric", name="ledger", **placed)
    return member("vera", "viewer")


def at_page(name: str, there: tuple[str, ...]) -> str:
    ids = [one if one == ROUTE else Member.objects.get(name=one).id for one in there]
    return reverse(name.partition(" ")[0], args=ids)


def acts() -> int:
    """Return what was done. That something was refused is told as well, and is none of it."""
    return AuditLine.objects.exclude(kind__in=("signed_in", "request_refused")).count()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_wants_a_fresh_sign_in_and_leads_to_it(browser: Client, vera: User, name: str):
    there, body = PAGES[name]
    where = at_page(name, there)
    before, sent = acts(), partial(Client.post, path=where, data=dict(body), HTTP_REFERER=REFERER)
    refused = sent(aged(browser))
    assert (refused.status_code, acts()) == (403, before)
    assert "sign in again" in refused.content.decode()
    assert re.search(r'href="/login\?again=1&(amp;)?next=%2Fpeople%2Fmembers"', refused.content.decode())
    assert sent(signed_in(User.objects.get(username="owner"))).status_code in (200, 302)


@pytest.mark.parametrize("name", API)
def test_the_api_wants_it_of_a_browser_and_takes_a_tokens_scope_where_it_says_so(
    browser: Client, vera: User, name: str
):
    there, body, by_token = API[name]
    where, owner = reverse(name, args=there), User.objects.get(username="owner")
    sent = partial(Client.post, path=where, data=json.dumps(body), content_type="application/json")
    before = acts()
    refused = sent(aged(browser))
    assert (refused.status_code, acts()) == (403, before)
    assert "sign in again" in refused.json()["detail"]
    secret = token_of(owner, "manages", (Scope.MANAGE,))
    answer = sent(Client(HTTP_HOST="127.0.0.1", HTTP_AUTHORIZATION=f"Bearer {secret}"))
    assert answer.status_code == by_token


def test_every_operation_that_manages_is_here():
    managing = {name for (name, method), scope in SCOPES.items() if scope is Scope.MANAGE and method != "GET"}
    assert managing == set(API) | NONE_WANTED


def test_every_page_that_manages_is_here():
    rights = {Right.MEMBERS, Right.KEYS, Right.POLICY}
    pages = {name for name, wants in CHANGES.items() if not isinstance(wants, str) and rights & set(wants)}
    pages = {name for name in pages if not name.startswith("api-") and f"api-{name}" not in NONE_WANTED}
    assert pages <= {name.partition(" ")[0] for name in PAGES}


def test_the_link_that_another_member_made_shows_no_one(browser: Client, vera: User):
    """The maker of a link may be the one who came by it: acts that want a fresh sign-in want one of their own, and the maker lets nothing pass that they started."""
    link = login_link_for(actor=owner_actor(), name="vera")
    came = Client(HTTP_HOST="127.0.0.1")
    came.post("/login/link", {"token": link})
    refused = came.post(at_page("token-create", ("vera",)), {"name": "hers", "scopes": ["read"]})
    assert refused.status_code == 403
    assert "owner made the link of this sign-in" in refused.content.decode().lower()


def test_nothing_that_opens_an_account_is_made_in_a_sign_in_by_anothers_link(vera: User):
    """A password, a second factor, a code, a token, an address for mail: the maker of the link would keep it, and pass for its person."""
    link = login_link_for(actor=owner_actor(), name="vera")
    came = Client(HTTP_HOST="127.0.0.1")
    came.post("/login/link", {"token": link})
    chosen = {"password": "four-dull-words-in-a-row", "again": "four-dull-words-in-a-row"}
    planted = {
        "/people/account": chosen,
        "/people/security/app": {},
        "/people/security/passkey": {"state": "x", "answer": "x"},
        "/people/security/codes": {},
        "/people/security/remove": {"factor": "x"},
        at_page("token-create", ("vera",)): {"name": "hers", "scopes": ["read"]},
        "/notifications/mine": MAIL,
    }
    for page in ("/people/account", "/people/security"):
        assert "made the link of this sign-in" in came.get(page).content.decode(), page
    before = acts()
    for where, sent in planted.items():
        refused = came.get(where) if where.endswith("/app") else came.post(where, sent)
        assert refused.status_code == 403, where
        assert "made the link of this sign-in" in refused.content.decode(), where
    assert acts() == before
    vera.refresh_from_db()
    assert (vera.has_usable_password(), vera.email) == (False, "")
    assert Client(HTTP_HOST="127.0.0.1").post("/login", {"name": "vera", **chosen}).status_code == 422
