"""Requests that change something where the plain one of ``test_rights`` changes nothing: each makes what it changes first."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pyotp
from django.contrib.auth.models import User
from django.test import Client

from fabric.core.people.roles import Role
from fabric.selectors.fabrics.lookup import fabric_get
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.services.actors import owner_actor
from fabric.services.people.sign_in.second_factors import totp_add, totp_secret
from fabric.services.reviews.assignments import review_claim
from tests.console.site.access import test_actors as test_access
from tests.console.site.access.test_rights import World, page, where
from tests.fabric.services.world import SMALL, ran
from tests.people import fresh, member, signed_in


def _user(role: Role) -> User:
    return User.objects.get(username=f"the-{role}")


def _asked(world: World, name: str, role: Role, body: Mapping[str, Any]) -> Any:
    if name.startswith("api-"):
        return world.programs[role].post(where(name), json.dumps(body), content_type="application/json")
    return world.browsers[role].post(where(name), body)


def _revert(world: World, name: str, role: Role) -> Any:
    """To the first revision, of a fabric that has a newer one."""
    number = fabric_get(owner_actor(), "small").number
    page_of = {"number": 1, "expect": number, "act": "revert"}
    return _asked(world, name, role, {"revision": 1} if name.startswith("api-") else page_of)


def _publish(world: World, name: str, role: Role) -> Any:
    """Another revision than the published one."""
    return _asked(world, name, role, {"source": SMALL.replace("A small fabric", "Another small fabric")})


def _claim(world: World, name: str, role: Role) -> Any:
    """Of a review that no member has in hand."""
    _review()
    return _asked(world, name, role, {})


def _release(world: World, name: str, role: Role) -> Any:
    """Of a review in one's own hand."""
    lease = review_claim(actor=fresh(_user(role)), review_id=_review()).assignment.lease
    return _asked(world, name, role, {"lease": lease})


def _reassign(world: World, name: str, role: Role) -> Any:
    """From one's own hand to the local owner's."""
    review_claim(actor=fresh(_user(role)), review_id=_review())
    return _asked(world, name, role, {"to": "owner"})


def _own_sign_ins(world: World, name: str, role: Role) -> Any:
    """The one in another browser."""
    other = signed_in(_user(role)).session["mark"]
    return _asked(world, name, role, {"sign_in": other})


def _members_sign_ins(world: World, name: str, role: Role) -> Any:
    """Of a member who is signed in."""
    signed_in(User.objects.get(username="target"))
    return page(world, role, name)


def _second(_world: World, name: str, _role: Role) -> Any:
    """After the first factor of a member who has two."""
    user, secret = member("with-two", "viewer"), totp_secret()
    codes = totp_add(actor=fresh(user), user=user, secret=secret, code=pyotp.TOTP(secret).now())
    half: Client = signed_in(user)
    return half.post(test_access.address(name), {"code": codes[0]})


def _review() -> str:
    """A new review, which addresses name from here on."""
    run = ran(owner_actor(), "doubtful")
    test_access.SAMPLE["review_id"] = found = list_open_reviews(owner_actor(), run.id)[0].id
    return found


CHANGING: Mapping[str, Callable[[World, str, Role], Any]] = {
    "api-review-claim": _claim,
    "api-review-reassign": _reassign,
    "api-review-release": _release,
    "api-fabric-revert": _revert,
    "api-fabrics": _publish,
    "fabric-revert": _revert,
    "login-second": _second,
    "member-sign-ins": _members_sign_ins,
    "review-claim": _claim,
    "review-reassign": _reassign,
    "review-release": _release,
    "sign-ins-end": _own_sign_ins,
}
