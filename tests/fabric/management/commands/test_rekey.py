"""`rekey`: a new key for stored secrets, and what was sealed under the old one sealed anew."""

import stat
import subprocess
import sys

import pytest
from django.apps import apps
from django.db.models import BinaryField

from fabric.models import ProviderKey
from fabric.providers.stored_keys import stored_keys
from fabric.secrets import key_ring
from fabric.secrets.key_ring import RING_NAME, KeyUnusable, alone, key_added, read_ring
from fabric.secrets.known_secrets import KNOWN, MASK
from fabric.secrets.secret_box import SEALED, key_id
from fabric.services.installation import facts as here
from fabric.services.installation.rekeying import values_resealed
from fabric.services.models.keys import key_set
from tests.fabric.management.console import command

HOSTS = tuple(f"https://api{n}.example.org:443" for n in range(5))


@pytest.fixture
def data(tmp_path, settings):
    settings.FABRIC_DATA, settings.FABRIC_KEY_RING = tmp_path, ""
    return tmp_path


@pytest.fixture
def five(actor, data):
    for n, host in enumerate(HOSTS):
        key_set(actor=actor, provider="openai", host=host, key=f"sk-0123456789-{n}")
    return actor


def opened():
    return sorted(one.secret for one in stored_keys(here.secret_box()).values())


NO_SECRET = {
    *("AuditCut.body", "AuditCut.signature", "AuditFold.line", "AuditLine.body", "AuditLine.hash", "Checkpoint.body"),
    *(
        "Checkpoint.signature",
        "Review.content",
        "Event.hash",
        "Event.header",
        "Event.payload",
        "Event.payload_hash",
    ),
    *("Inbox.body", "ModelTest.outcome", "Notification.content", "Run.head_hash", "Snapshot.head", "Snapshot.state"),
}
"""Fields of bytes of the audit stream and of journals."""
ALL = [f"sk-0123456789-{n}" for n in range(5)]


def named():
    return {key_id(bytes(row.sealed)) for row in ProviderKey.objects.all()}


def test_every_field_that_is_named_sealed_is_in_the_table():
    """A secret is sealed to bytes, so each field of bytes is in the table, or is known to hold none."""
    fields = {
        (model, field.name)
        for model in apps.get_models()
        for field in model._meta.get_fields()
        if isinstance(field, BinaryField) or field.name.startswith("sealed")
    }
    sealed = {(one.model, one.name) for one in SEALED}
    assert sealed <= fields
    assert {f"{model.__name__}.{name}" for model, name in fields - sealed} == NO_SECRET


def test_the_ring_is_made_once_for_its_owner_alone(data):
    (first,), (again,) = read_ring(data), read_ring(data)
    assert first == again
    assert stat.S_IMODE((data / RING_NAME).stat().st_mode) == 0o600
    assert not any(one in repr(first) for one in (first.text, repr(first.seals)))


def test_rekeying_makes_a_key_seals_all_anew_and_counts(five, data):
    (old,) = read_ring(data)
    said = command("rekey", "--json").last
    new, kept = read_ring(data)
    assert kept == old
    assert said == {
        "key": new.id.hex(),
        "made": True,
        "resealed": 5,
        "newest": 0,
        "unopened": 0,
        "forgotten": 0,
        "keys": 2,
    }
    assert (named(), opened()) == ({new.id}, ALL)
    told = command("rekey", "--forget")
    assert (told.code, told.out.splitlines()[-2:]) == (0, ["Keys forgotten: 1.", "The key ring has 1 key."])
    assert read_ring(data) == (new,)
    assert opened() == ALL


def test_one_that_was_ended_half_way_goes_on_under_the_same_key(five, data):
    (old,), new = read_ring(data), key_added(data)
    row, box = ProviderKey.objects.first(), here.secret_box()
    about = SEALED[0].list_bindings(row)
    ProviderKey.objects.filter(id=row.id).update(sealed=box.seal(box.open(bytes(row.sealed), *about), *about))
    assert named() == {old.id, new.id}
    assert opened() == ALL
    said = command("rekey", "--json").last
    assert (said["made"], said["resealed"], said["newest"], said["key"]) == (False, 4, 1, new.id.hex())
    assert (named(), opened()) == ({new.id}, ALL)


def test_a_key_that_a_value_still_names_is_not_forgotten(five, data):
    """A value that does not open now, since its row was changed, may when the row is as it was."""
    (old,), row = read_ring(data), ProviderKey.objects.get(host=HOSTS[0])
    ProviderKey.objects.filter(id=row.id).update(host="https://moved.example.org:443")
    assert command("rekey", "--json").last["unopened"] == 1
    said = command("rekey", "--forget", "--json").last
    assert (said["forgotten"], said["keys"], old in read_ring(data)) == (0, 2, True)
    ProviderKey.objects.filter(id=row.id).update(host=row.host)
    assert opened() == ALL


def test_the_ring_s_keys_are_masked_wherever_they_are_said(data):
    (key,) = read_ring(data)
    assert KNOWN.mask_text(f"the key {key.text} was said") == f"the key {MASK} was said"


def test_a_missing_key_is_counted_and_the_rest_is_sealed_anew(five, data):
    text = (data / RING_NAME).read_text()
    (data / RING_NAME).unlink()
    key_set(actor=five, provider="openai", host=HOSTS[0], key=ALL[0])
    said = command("rekey", "--json")
    assert (said.code, said.last["made"], said.last["resealed"], said.last["unopened"]) == (1, True, 1, 4)
    assert opened() == ["", "", "", "", ALL[0]]
    (data / RING_NAME).write_text((data / RING_NAME).read_text() + text)
    assert opened() == ALL


def test_a_process_that_runs_opens_all_before_and_after(five):
    box, rows = here.secret_box(), list(ProviderKey.objects.all())
    assert command("rekey").code == 0
    assert sorted(one.secret for one in stored_keys(box).values()) == ALL
    assert all(
        box.opens(bytes(row.sealed), *SEALED[0].list_bindings(row)) for row in rows
    )  # Read before, opened after.


def test_a_key_replaced_meanwhile_stays(five, data):
    key_added(data)
    row = ProviderKey.objects.get(host=HOSTS[0])
    stale = bytes(row.sealed)
    key_set(actor=five, provider="openai", host=HOSTS[0], key="sk-replaced-0123")
    assert not ProviderKey.objects.filter(pk=row.pk, sealed=stale).update(sealed=b"lost")
    assert values_resealed().resealed == 4
    assert "sk-replaced-0123" in opened()


def test_two_at_once_are_refused(data):
    with alone(data):
        code = "import sys; from pathlib import Path; from fabric.secrets.key_ring import alone\nwith alone(Path(sys.argv[1])): pass"
        said = subprocess.run([sys.executable, "-c", code, str(data)], capture_output=True, text=True, check=False)
    assert said.returncode
    assert "another `python3 manage.py rekey` is under way" in said.stderr


def test_a_variable_s_ring_is_not_changed_and_its_first_key_seals(five, data, settings):
    (old,) = read_ring(data)
    settings.FABRIC_KEY_RING = f"{'ab' * 32},{old.text}"
    said = command("rekey", "--json").last
    assert (said["made"], said["resealed"], said["keys"]) == (False, 5, 2)
    assert read_ring(data) == (old,)
    told = command("rekey", "--forget")
    assert (told.code, told.err) == (2, "the key ring is FABRIC_KEY_RING: take the old key out of it yourself\n")
    settings.FABRIC_KEY_RING = "ab" * 32
    assert opened() == ALL


@pytest.mark.django_db
@pytest.mark.parametrize("text", ["", "sesame", "ab" * 31, f"{'ab' * 32} sesame"])
def test_a_damaged_ring_is_one_sentence_and_is_left_as_it_is(data, text):
    (data / RING_NAME).write_text(text)
    said = command("rekey")
    assert (said.code, said.out) == (2, "")
    assert (
        said.err
        == f"the key ring {data / RING_NAME} is damaged: put it back from a copy; without it stored keys do not open\n"
    )
    assert (data / RING_NAME).read_text() == text


def test_a_full_ring_takes_no_further_key(data):
    for _ in range(key_ring.KEYS_MAX - 1):
        read_ring(data)
        key_added(data)
    with pytest.raises(KeyUnusable, match="which is the most: run `python3 manage.py rekey --forget`"):
        key_added(data)
