"""Tries to sign in: six, then a wait that doubles, for all web processes together."""

import pytest

from fabric.core.values.units import US
from fabric.models import SignInTries
from fabric.services.people.sign_in import attempts as sign_in_tries
from fabric.services.people.sign_in.attempts import (
    FIRST_WAIT_S,
    KEPT_S,
    OF_AN_ADDRESS,
    TRIES,
    WAIT_MAX_S,
    address_subject,
    name_subject,
    try_begin,
    try_forgive,
)
from tests.fabric.services.at_once import at_once

pytestmark = pytest.mark.django_db


@pytest.fixture
def clock(monkeypatch):
    """Seconds, which the test moves."""
    at = [1_000.0]
    monkeypatch.setattr(sign_in_tries, "_now", lambda: int(at[0] * US))
    return at


def test_six_are_free_and_then_each_waits_twice_as_long(clock):
    who, waits = name_subject("vera"), []
    for _ in range(TRIES + 7):
        while wait := try_begin(who):
            waits.append(wait)
            clock[0] += wait
    assert waits == [FIRST_WAIT_S, 60, 120, 240, 480, WAIT_MAX_S, WAIT_MAX_S]


def test_one_that_is_refused_is_not_counted(clock):
    for _ in range(TRIES):
        assert try_begin(name_subject("vera")) == 0
    assert {try_begin(name_subject("vera")) for _ in range(50)} == {FIRST_WAIT_S}


def test_where_one_has_to_wait_the_other_is_not_counted(clock):
    """Whichever of the two is asked first."""
    for _ in range(TRIES):
        try_begin(name_subject("vera"))
    addresses = [address_subject(f"192.0.2.{n}") for n in range(8)]
    assert {who.key < name_subject("vera").key for who in addresses} == {True, False}
    assert {try_begin(who, name_subject("vera")) for who in addresses} == {FIRST_WAIT_S}
    assert [row.failed for row in SignInTries.objects.all()] == [TRIES]


def test_a_name_is_one_whatever_its_case_and_form(clock):
    for name in ("Vera", "vera", "VERA", "ｖera", "vera", "vera"):
        assert try_begin(name_subject(name)) == 0
    assert try_begin(name_subject("vera")) > 0
    assert try_begin(name_subject("veras")) == 0


def test_a_network_of_ipv6_is_one_address_and_has_more_tries(clock):
    for n in range(TRIES * OF_AN_ADDRESS):
        assert try_begin(address_subject(f"2001:db8:0:1::{n:x}")) == 0
    assert try_begin(address_subject("2001:db8:0:1:ffff::1")) > 0
    assert try_begin(address_subject("2001:db8:0:2::1")) == 0


def test_an_address_is_one_in_both_spellings():
    assert address_subject("192.0.2.1") == address_subject("::ffff:192.0.2.1")
    assert len({address_subject(each).key for each in ("192.0.2.1", "192.0.2.2", "", "nowhere")}) == 4


def test_a_right_one_forgets_the_name_and_takes_one_of_the_address_back(clock):
    name, address = name_subject("vera"), address_subject("192.0.2.1")
    for _ in range(TRIES):
        try_begin(name, address)
    try_forgive(name, address)
    assert try_begin(name) == 0
    assert SignInTries.objects.get(who=address.key).failed == TRIES - 1


def test_the_holder_of_one_account_guesses_at_no_more_names(clock):
    """Signing in between guesses does not make an address new."""
    address = address_subject("192.0.2.1")
    for n in range(TRIES * OF_AN_ADDRESS):
        assert try_begin(name_subject(f"guess-{n}"), address) == 0
    assert try_begin(name_subject("own"), address) > 0


def test_after_a_day_all_is_forgotten(clock):
    for _ in range(TRIES):
        try_begin(name_subject("vera"))
    clock[0] += KEPT_S + 1
    assert try_begin(name_subject("ben")) == 0
    assert SignInTries.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_many_at_once_no_more_are_let_through():
    told = at_once([lambda: [try_begin(name_subject("vera")) for _ in range(5)]] * 4)
    assert sum(waits.count(0) for waits in told) == TRIES
