"""Stored keys of model endpoints: who may store one, for which host, and that it is in nothing that can be read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.db import connection

from fabric.models import AuditLine, ProviderKey, Workspace
from fabric.providers.stored_keys import note_used, stored_keys
from fabric.services.errors import Refused
from fabric.services.installation import facts as here
from fabric.services.models.catalogue import keys_list
from fabric.services.models.keys import key_delete, key_set
from tests.fabric.services.models.scenes import KEY

HOST = "https://api.openai.com/v1"
ORIGIN = "https://api.openai.com:443"


def stored(actor, provider="openai", host=HOST, key=KEY):
    return key_set(actor=actor, provider=provider, host=host, key=key)


def opened():
    return {where[1:]: one.secret for where, one in stored_keys(here.secret_box()).items()}


def test_it_is_stored_for_the_host_of_the_address_and_only_its_end_is_seen(actor):
    told = stored(actor)
    assert (told.host, told.last_four, told.added_by) == (ORIGIN, KEY[-4:], "owner")
    assert opened() == {("openai", ORIGIN): KEY}
    assert KEY not in repr(told)
    assert [one.host for one in keys_list(actor)] == [ORIGIN]


@pytest.mark.parametrize("written", ["https://API.OpenAI.com", "https://api.openai.com:443/v1/", f" {HOST} "])
def test_one_host_has_one_key_however_it_is_written(actor, written):
    stored(actor)
    stored(actor, host=written, key="another-key-0123456789")
    assert opened() == {("openai", ORIGIN): "another-key-0123456789"}
    assert [line.kind for line in AuditLine.objects.filter(kind="model_key_stored")] == ["model_key_stored"] * 2


def test_replacing_forgets_what_was_known_of_the_key_before(actor):
    first = stored(actor)
    ProviderKey.objects.update(used_at=1, tested_at=1, tested_ok=True, tested_said="It answered.")
    again = stored(actor, key="another-key-0123456789")
    assert (again.id, again.used_at, again.tested_at, again.tested_ok) == (first.id, None, None, False)


def test_deleting_it_leaves_nothing(actor):
    stored(actor)
    told = key_delete(actor=actor, provider="openai", host=HOST)
    assert (told.last_four, ProviderKey.objects.count(), opened()) == (KEY[-4:], 0, {})
    with pytest.raises(Refused, match="no key is stored for 'https://api.openai.com:443'") as refused:
        key_delete(actor=actor, provider="openai", host=HOST)
    assert refused.value.code == "not_found"


@pytest.mark.parametrize(
    ("changed", "field", "said"),
    [
        ({"provider": "scripted"}, "provider", "there are: openai, anthropic, google"),
        ({"provider": ""}, "provider", "there are: openai"),
        ({"host": "api.openai.com"}, "host", "'api.openai.com' is no URL of an endpoint: give it in the field host"),
        ({"host": ""}, "host", "the endpoint's URL is missing: give it in the field host"),
        ({"host": "ftp://example.org"}, "host", "'ftp://example.org' is no URL of an endpoint"),
        ({"host": "https://e.org/" + "x" * 500}, "host", "is no URL of an endpoint"),
        ({"host": "http://api.example.org/v1"}, "host", "is plain http; use https"),
        ({"host": "https://10.0.0.1/v1"}, "host", "private"),
        ({"host": "https://me:secret-of-mine@example.org"}, "host", "user name or password"),
        ({"key": ""}, "key", "is empty"),
        ({"key": " \n"}, "key", "is empty"),
        ({"key": "two words and more"}, "key", "space"),
        ({"key": "sk-ünïcödé-0123456789"}, "key", "space or a character"),
        ({"key": "short-key-1"}, "key", "has 11 characters"),
        ({"key": "x" * 501}, "key", "has 501 characters"),
    ],
)
def test_what_cannot_be_taken_is_told_by_field_and_never_shown(actor, changed, field, said):
    with pytest.raises(Refused) as refused:
        stored(actor, **changed)
    assert (refused.value.code, refused.value.field) == ("invalid", field)
    assert said in refused.value.message
    assert ProviderKey.objects.count() == AuditLine.objects.filter(kind="model_key_stored").count() == 0
    if len(changed.get("key", "")) > 2:
        assert changed["key"] not in refused.value.message


def test_the_operators_own_endpoint_may_be_anywhere(actor, settings):
    settings.FABRIC_MODEL_URL = "http://127.0.0.1:8000/v1"
    assert stored(actor, host="http://127.0.0.1:8000/v1").host == "http://127.0.0.1:8000"
    with pytest.raises(Refused, match="plain http"):
        stored(actor, host="http://127.0.0.1:8001/v1")
    settings.FABRIC_ALLOWED_HOSTS = ("127.0.0.1:8001",)
    assert stored(actor, host="http://127.0.0.1:8001/v1").host == "http://127.0.0.1:8001"


@pytest.mark.parametrize("role", ["editor", "operator", "finance", "auditor"])
def test_only_an_owner_stores_and_deletes(actor, role):
    stored(actor)
    other = replace(actor, name="other", roles=frozenset({role}))
    for refused in (lambda: stored(other), lambda: key_delete(actor=other, provider="openai", host=HOST)):
        with pytest.raises(Refused, match="that is for owner") as told:
            refused()
        assert told.value.code == "forbidden"
    assert opened() == {("openai", ORIGIN): KEY}


def test_another_workspace_sees_nothing_and_has_its_own(actor):
    stored(actor)
    stranger = replace(actor, workspace_id=Workspace.objects.create(name="another").id)
    assert keys_list(stranger) == []
    with pytest.raises(Refused, match="no key is stored"):
        key_delete(actor=stranger, provider="openai", host=HOST)
    stored(stranger, key="another-key-0123456789")
    found = stored_keys(here.secret_box())
    assert {where[0]: one.secret for where, one in found.items()} == {
        actor.workspace_id: KEY,
        stranger.workspace_id: "another-key-0123456789",
    }


def test_the_key_that_sessions_are_signed_with_opens_and_closes_nothing(actor, settings):
    stored(actor)
    settings.SECRET_KEY = "another-secret-key-" * 3
    assert opened() == {("openai", ORIGIN): KEY}


def test_a_key_ring_that_is_damaged_breaks_no_list_and_stores_nothing(actor, settings):
    stored(actor)
    settings.FABRIC_KEY_RING = "sesame"
    assert set(opened().values()) == {""}
    assert [one.opens for one in keys_list(actor)] == [False]
    with pytest.raises(Refused, match="the key cannot be stored: the key ring FABRIC_KEY_RING is damaged") as refused:
        stored(actor)
    assert "sesame" not in refused.value.message


@pytest.mark.parametrize("field", ["host", "provider", "workspace_id", "id"])
def test_a_row_that_was_changed_in_the_database_does_not_open(actor, field):
    stored(actor)
    other = Workspace.objects.create(name="another").id
    values = {"host": "https://thief.example:443", "provider": "anthropic", "workspace_id": other, "id": other}
    ProviderKey.objects.update(**{field: values[field]})
    assert set(opened().values()) == {""}
    owner = replace(actor, workspace_id=other) if field == "workspace_id" else actor
    assert [one.opens for one in keys_list(owner)] == [False]


def test_under_another_key_ring_it_does_not_open_and_storing_it_again_does(actor, settings):
    stored(actor)
    settings.FABRIC_KEY_RING = "ab" * 32
    assert opened() == {("openai", ORIGIN): ""}
    assert [one.opens for one in keys_list(actor)] == [False]
    stored(actor)
    assert opened() == {("openai", ORIGIN): KEY}


def test_a_use_is_written_down(actor):
    told = stored(actor)
    note_used(told.id)
    assert (keys_list(actor)[0].used_at or 0) >= told.added_at


def test_no_column_of_any_table_holds_it(actor):
    stored(actor)
    key_delete(actor=actor, provider="openai", host=HOST)
    stored(actor)
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{table}"')
            for row in cursor.fetchall():
                for value in row:
                    raw = bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode()
                    assert KEY.encode() not in raw, table


def test_the_audit_stream_has_the_host_and_the_end(actor):
    stored(actor)
    key_delete(actor=actor, provider="openai", host=HOST)
    lines = AuditLine.objects.filter(kind__startswith="model_key").order_by("at", "id")
    assert [(line.kind, line.subject, line.actor) for line in lines] == [
        ("model_key_stored", ORIGIN, "owner"),
        ("model_key_deleted", ORIGIN, "owner"),
    ]
    assert all(f'"{KEY[-4:]}"' in bytes(line.body).decode() for line in lines)
