"""`manage.py memory`: what a fabric remembers, looked at and changed by an operator."""

import json

import pytest
from django.core.management import CommandError

from fabric.management.commands.memory import BECAME
from fabric.models import AuditLine
from fabric.selectors.memories.lookup import EntryFate
from fabric.services.fabrics.revisions import fabric_publish
from tests.fabric.management.console import command
from tests.fabric.services.memories.test_changes import REMEMBERING

KEY = ("remembering", "notes", "budget")


@pytest.fixture(autouse=True)
def _fabric(actor):
    fabric_publish(actor=actor, source=REMEMBERING)


def write(value, *more):
    return command("memory", "write", *KEY, "--value", value, "--reason", "Told by the office.", *more)


def acts():
    return [line.kind for line in AuditLine.objects.filter(kind__startswith="memory_").order_by("at")]


def test_written_shown_listed_deleted_and_each_change_is_audited():
    done = write('{"usd": 40}')
    assert (done.code, done.err) == (0, "")
    assert done.out == "budget is written: version 1 stands, and the runs from now on read it.\n"
    assert write("41", "--json").last == {
        "fabric": "remembering",
        "memory": "notes",
        "key": "budget",
        "version": 2,
        "replaces": 1,
    }
    shown = command("memory", "show", *KEY, "--json").last
    assert (shown["value"], shown["version"], shown["actor"]) == (41, 2, "owner")
    assert command("memory", "show", *KEY).out.endswith("\n41\n")
    listed = command("memory", "list", "remembering").out
    assert "notes: 1 of 100 keys (write: reader; read: reader; delete: no agent)" in listed
    assert "budget  version 2  41  (owner, " in listed
    assert "scratch: of each run, in its journal" in listed
    deleted = command("memory", "delete", *KEY, "--reason", "It is wrong.")
    assert (deleted.code, deleted.out) == (
        0,
        "budget is deleted: no run reads it any more, and its values are erased.\n",
    )
    assert command("memory", "list", "remembering", "--memory", "notes", "--json").last["memories"][0]["keys"] == 0
    history = [line.split("  ")[:3] for line in command("memory", "history", *KEY).out.splitlines()]
    assert history == [
        ["version 3", "deleted it", "-"],
        ["version 2", "replaced", "erased"],
        ["version 1", "replaced", "erased"],
    ]
    assert acts() == ["memory_written", "memory_written", "memory_deleted"]


def test_the_history_and_the_export_say_the_same(tmp_path):
    write("1")
    write('"two"')
    told = command("memory", "history", *KEY, "--json").last
    lines = [json.loads(line) for line in command("memory", "export", "remembering").out.splitlines()]
    assert lines[::-1] == told["entries"]
    assert [(one["value"], one["became"]) for one in lines] == [(1, "replaced"), ("two", "stands")]
    to = tmp_path / "notes.ndjson"
    assert command("memory", "export", "remembering", "--memory", "notes", "--to", str(to)).code == 0
    assert [json.loads(line) for line in to.read_text().splitlines()] == lines
    again = command("memory", "export", "remembering", "--to", str(to))
    assert (again.code, again.out) == (2, "")
    assert "is there already; name a new file" in again.err
    assert acts()[2:] == ["memory_exported"] * 2


def test_a_value_comes_from_a_file_too(tmp_path):
    (tmp_path / "value.json").write_text("[1, 2]")
    done = command("memory", "write", *KEY, "--file", str(tmp_path / "value.json"), "--reason", "Told.")
    assert done.code == 0
    assert command("memory", "show", *KEY, "--json").last["value"] == [1, 2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("write", *KEY, "--value", "forty", "--reason", "x"), "--value is no JSON"),
        (("write", *KEY, "--value", "1"), "writing what a fabric remembers needs a reason"),
        (("write", *KEY, "--value", "1", "--reason", "x", "--version", "7"), "changed meanwhile"),
        (("write", "remembering", "notes", "-", "--value", "1", "--reason", "x"), "takes no such entry"),
        (
            ("write", "remembering", "scratch", "k", "--value", "1", "--reason", "x"),
            "has no memory 'scratch' that outlives",
        ),
        (("write", *KEY, "--file", "nowhere.json", "--reason", "x"), "nowhere.json cannot be read"),
        (("delete", *KEY, "--reason", "x"), "key 'budget' has no value"),
        (("show", *KEY), "key 'budget' has no value"),
        (("show", "remembering", "notes", "\udcff"), "has no value"),
        (("history", *KEY), "nothing was ever written under 'budget'"),
        (("list", "nosuch"), "nosuch"),
        (("list", "remembering", "--memory", "other"), "has no memory 'other'"),
        (("export", "remembering", "--memory", "other"), "has no memory 'other'"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(words, said):
    done = command("memory", *words)
    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert said in done.err
    assert acts() == []


def test_a_value_and_a_file_at_once_are_refused():
    with pytest.raises(CommandError, match="not allowed with"):
        write("1", "--file", "x")


def test_each_fate_of_an_entry_has_its_words():
    assert set(BECAME) == set(EntryFate)
