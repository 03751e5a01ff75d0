"""A password passes only by all rules."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError

from fabric.services.actors import workspace_default

pytestmark = pytest.mark.django_db
VERA = {"username": "vera.lindqvist", "email": "vl-1988@example.org"}

GOOD = [
    "six dull words beside the sea",
    "correct horse battery staple",
    "843921750946283",
    "ααααβγδ εζηθικ λμν",
    "zR7!qLm2@vXw9#pT",
    "fabric of a quiet winter morning",
    "               seven birds",
]
REFUSED = [
    ("short-one", "too short"),
    ("fourteen chars", "too short"),
    ("fabricflowfabric", "made of your name"),
    ("Fabric Flow 2026!", "made of your name"),
    ("veralindqvist99", "made of your name"),
    ("vera.lindqvist.vera", "made of your name"),
    ("vl1988vl1988vl1988", "made of your name"),
    ("default-default-1", "made of your name"),
    ("passwordpassword", "tried first"),
    ("aaaaaaaaaaaaaaaaaaaa", "tried first"),
    ("abcabcabcabcabcabc", "tried first"),
    ("123456789012345678", "tried first"),
    ("qwertyuiopasdfghjkl", "tried first"),
    ("Password1234567!", "tried first"),
    ("manchesterunited", "tried first"),
    ("poiuytrewqlkjhgfdsa", "tried first"),
]


@pytest.mark.parametrize("password", GOOD)
def test_nothing_is_asked_about_which_letters_it_has(password):
    workspace_default()
    validate_password(password, User(**VERA))


@pytest.mark.parametrize(("password", "why"), REFUSED)
def test_what_is_easily_guessed_is_refused(password, why):
    workspace_default()
    with pytest.raises(ValidationError, match=why):
        validate_password(password, User(**VERA))


def test_where_a_second_factor_is_demanded_eight_characters_do(settings):
    settings.FABRIC_SECOND_FACTOR = "required"
    validate_password("eel-lamp", User(**VERA))
    with pytest.raises(ValidationError, match="give it 8 or more"):
        validate_password("eellamp", User(**VERA))
    with pytest.raises(ValidationError, match="tried first"):
        validate_password("baseball", User(**VERA))
