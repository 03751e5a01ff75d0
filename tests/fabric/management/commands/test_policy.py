"""`policy`: what holds, setting it over the version that stands, and each wrong input in one sentence with file, line and field."""

from __future__ import annotations

import json

import pytest

from fabric.models import SharedBudget, WorkspacePolicyVersion
from fabric.selectors.workspaces.policies import standing_policy
from fabric.services.workspaces.policies import policy_set
from tests.fabric.management.console import command

ORIGIN = "https://api.openai.com:443"
WHOLE = {
    "hosts": ["*.example.com"],
    "waivers": "four_eyes",
    "caps": {"run_usd_micros": 5_000_000},
    "keys": {ORIGIN: {"day_usd_micros": 20_000_000}},
}
pytestmark = pytest.mark.usefixtures("actor")


@pytest.fixture
def written(tmp_path):
    """Writes a file; its path."""

    def write(text):
        path = tmp_path / "policy.json"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


def test_where_none_is_set_it_says_so():
    done = command("policy")
    assert (done.code, done.out.strip(), done.err) == (0, "No policy is set.", "")
    assert command("policy", "--json").last == {"number": 0, "set_by": "", "policy": {}}


def test_what_is_set_is_shown(actor, written):
    done = command("policy", "--set", written(json.dumps(WHOLE)))
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"Version 1, set by {actor.name}.",
        'hosts: ["*.example.com"]',
        'waivers: "four_eyes"',
        'caps: {"run_usd_micros": 5000000}',
        f"key of {ORIGIN}: $0 of $20.00 spent this day",
    ]
    assert command("policy", "--json").last == {"number": 1, "set_by": actor.name, "policy": WHOLE}


def test_what_is_spent_of_a_key_is_shown(actor):
    policy_set(actor=actor, policy={"keys": {ORIGIN: {"month_usd_micros": 2_000_000}}}, expect=0)
    SharedBudget.objects.filter(scope__startswith="key_month").update(spent=500_000)
    assert f"key of {ORIGIN}: $0.50 of $2.00 spent this month" in command("policy").out


def test_yaml_is_read_too(written):
    assert command("policy", "--set", written("hosts:\n  - crm.example.com\n")).code == 0
    assert command("policy", "--json").last["policy"] == {"hosts": ["crm.example.com"]}


def test_it_takes_the_place_of_the_version_that_was_named_and_of_no_other(actor, written):
    policy_set(actor=actor, policy=WHOLE, expect=0)
    done = command("policy", "--set", written("{}"), "--expect", "0")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("version 1 of the policy is in force, and another was expected")
    assert command("policy", "--set", written("{}"), "--expect", "1").code == 0
    assert standing_policy(actor.workspace_id).number == 2


WRONG = {
    '{"hosts": [}': "line 1, column 12: ",
    '{\n  "hopes": 1\n}': "line 2, column 12, hopes: Extra inputs are not permitted",
    '{\n  "hosts": [\n    "a.example.com",\n    "a/b"]\n}': "line 4, column 5, hosts.1: 'a/b' is no host: give a name such as",
    '{"waivers": "anybody"}': "line 1, column 13, waivers: ",
    f'{{"keys":\n {{"{ORIGIN}": {{"day_usd_micros": -1}}}}}}': f"line 2, column 52, keys.{ORIGIN}.day_usd_micros: ",
    '{"keys": {"nowhere": {}}}': "line 1, column 11, keys.nowhere: 'nowhere' is no endpoint",
    "[]": "line 1, column 1: policy: ",
    "": ": ",
    '{"hosts": [], "hosts": []}': "line 1, column 15: ",
    "\x00": ": the text holds NUL characters",
}
"""Wrong files, each with what is said of it after its path."""


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_one_sentence_with_file_line_and_field(written, text):
    path = written(text)
    done = command("policy", "--set", path)
    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1), done.err
    said = WRONG[text]
    assert done.err.startswith(f"{path}, {said}" if said.startswith("line") else f"{path}{said}"), done.err
    assert not WorkspacePolicyVersion.objects.exists()


def test_each_problem_has_a_line_of_its_own(written):
    path = written('{"hosts": ["a/b"],\n "limits": {"turns": 0}}')
    done = command("policy", "--set", path)
    assert [line.partition(": ")[0] for line in done.err.splitlines()] == [
        f"{path}, line 1, column 12, hosts.0",
        f"{path}, line 2, column 22, limits.turns",
    ]


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path, written):
    missing = str(tmp_path / "none.json")
    assert command("policy", "--set", missing).err == f"{missing} cannot be read: No such file or directory\n"
    assert command("policy", "--set", str(tmp_path)).err == f"{tmp_path} cannot be read: Is a directory\n"
    assert "is no UTF-8 text" in command("policy", "--set", written(b"\xff\xfe")).err
    large = command("policy", "--set", written("[" + "1," * 200_000 + "1]"))
    assert (large.code, "are taken as a policy" in large.err) == (2, True)
