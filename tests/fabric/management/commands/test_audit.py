"""`manage.py audit`: list, export, verify, holds and rules; what it refuses; and that each command is in the table of acts."""

from __future__ import annotations

import json

import pytest
from django.core.management import get_commands

from console.site.access.audit_trail import ROUTE_ACTS, ByDoor, ByService
from fabric.core.audit.acts import ACTS
from fabric.core.audit.lines import Act
from fabric.management.base import COMMAND_ACTS
from fabric.models import AuditLine
from fabric.services.acts import audit_record
from fabric.services.audit.checkpoints import audit_seal
from tests.fabric.management.console import command

BY_ITSELF = {
    Act.WORKSPACE_CREATED, Act.USER_CREATED, Act.RUN_ERASED, Act.BREAKER_MOVED, Act.MEMORY_PRUNED, Act.AUDIT_CUT, Act.FABRIC_WITHDRAWN,
    Act.SIGN_IN_REFUSED, Act.STOP_EXPIRED, Act.PUBLICATION_FAILED,
}  # fmt: skip
"""What the system does."""
AT_THE_DOOR = {Act.REQUEST_REFUSED, Act.CALLER_REFUSED}


def test_every_command_is_in_the_table():
    ours = {
        name for name, app in get_commands().items() if app.startswith(("fabric", "simulator.", "console", "tests."))
    }
    assert set(COMMAND_ACTS) == ours


def test_every_act_comes_in_somewhere():
    by_route = {act for told in ROUTE_ACTS.values() if isinstance(told, ByService) for act in told.acts}
    by_door = {told.act for told in ROUTE_ACTS.values() if isinstance(told, ByDoor)}
    by_command = {act for acts in COMMAND_ACTS.values() if not isinstance(acts, str) for act in acts}
    others = {Act.PASSWORD_CHANGED}  # At the address of the account, beside what the door writes.
    assert set(ACTS) == by_route | by_door | by_command | BY_ITSELF | AT_THE_DOOR | others


def test_records_are_listed_and_say_that_they_came_by_the_command_line(actor):
    done = command("retention", "--days", "30")
    assert done.code == 0
    line = AuditLine.objects.get(kind="retention_set")
    assert json.loads(bytes(line.body))["origin"] == {"by": "cli"}
    shown = command("audit", "list", "--act", "retention_set")
    assert "owner set how long contents are kept" in shown.out
    (told,) = map(json.loads, command("audit", "list", "--act", "retention_set", "--json").out.splitlines())
    assert (told["came_by"], told["more"]["days"]) == ("cli", 30)


def test_what_a_command_is_refused_is_recorded(actor):
    assert command("member", "remove", "owner").code == 2
    line = AuditLine.objects.get(kind="request_refused")
    assert (line.actor, line.subject) == ("owner", "manage.py member")


def test_an_export_verifies_and_a_changed_one_does_not(actor, tmp_path):
    for number in range(3):
        audit_record(actor=actor, act=Act.RETENTION_SET, subject=f"{number}")
    audit_seal()
    to = tmp_path / "audit.ndjson"
    assert command("audit", "export", "--to", str(to)).code == 0
    assert command("audit", "export", "--to", str(to)).code == 2
    done = command("audit", "verify", str(to))
    assert (done.code, "nothing wrong" in done.out) == (0, True)
    to.write_text(to.read_text().replace('"subject": "1"', '"subject": "9"'))
    assert command("audit", "verify", str(to)).code == 1


@pytest.mark.parametrize(
    "words",
    [
        ("list", "--act", "nothing"),
        ("list", "--days", "-1"),
        ("hold", "fabric", "never", "--reason", "x"),
        ("lift", "never", "--reason", "x"),
        ("rule", "*"),
        ("rule", "*", "--days", "3"),
        ("export", "--form", "xml"),
    ],
)
def test_what_cannot_be_is_refused(actor, words):
    done = command("audit", *words)
    assert (done.code, bool(done.err)) == (2, True)


def test_a_hold_and_a_rule(actor, small):
    made = json.loads(command("audit", "hold", "fabric", small, "--reason", "Case 12.", "--json").out)
    assert "placed by owner: Case 12." in command("audit", "holds").out
    assert json.loads(command("audit", "lift", made["id"], "--reason", "Over.", "--json").out)["lifted_by"] == "owner"
    assert command("audit", "rule", "signed_out", "--days", "90").out == "signed_out: 90 days\n"
    assert command("audit", "rule", "signed_out", "--for-good").out == "No rule removes any record.\n"
    assert "0 records were removed" in command("audit", "retain").out
