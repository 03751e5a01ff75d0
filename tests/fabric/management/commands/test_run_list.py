"""`run list`, `run show` and `run follow`: runs are found by the page's query line, and by any part of an id."""

import csv
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.conf import settings

from fabric.core.values.flow import RunState
from fabric.management import machine_zone
from fabric.management.output.colours import TONES, paint
from fabric.models import Run
from fabric.services.runs.start import run_start
from tests.fabric.management.console import command
from tests.fabric.services.world import HeardNudge, ran


@pytest.fixture
def queued(store, actor, small):
    """A run that no worker has claimed."""
    return run_start(store=store, nudge=HeardNudge(), actor=actor, fabric=small, text="What do the notes say?").run_id


def test_runs_are_listed_by_the_query_of_the_page(store, actor, small):
    ended = ran(actor, small)
    waits = run_start(store=store, nudge=HeardNudge(), actor=actor, fabric=small, text="And now?").run_id
    done = command("run", "list", "state:completed", "--json")
    assert (done.code, done.err) == (0, "")
    (row,) = done.last["runs"]
    assert (row["id"], row["state"], row["fabric_name"]) == (ended.id, "completed", small)
    assert done.last["next"] is None
    assert command("run", "list", "-q", f"fabric:{small}", "state:queued").out == f"{waits}\n"


def test_a_line_has_the_end_of_the_id_the_state_the_time_in_utc_and_the_request(queued):
    (line,) = command("run", "list").out.splitlines()
    assert line.startswith(f"{queued[-12:]}  queued ")
    assert " UTC  What do the notes say?" in line


def test_a_list_goes_on_after_its_cursor(actor, small):
    newest_last = [ran(actor, small).id for _ in range(3)]
    first = command("run", "list", "--limit", "2", "--json").last
    assert [row["id"] for row in first["runs"]] == newest_last[:0:-1]
    rest = command("run", "list", "--limit", "2", "--after", first["next"], "--json").last
    assert ([row["id"] for row in rest["runs"]], rest["next"]) == (newest_last[:1], None)
    risen = command("run", "list", "--sort", "started", "--limit", "2", "-q").out.split()
    assert risen == newest_last[:2]


def test_nothing_found_is_said_beside_the_list(actor):
    done = command("run", "list")
    assert (done.code, done.out, done.err) == (0, "", "no run matches\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("stat:failed",), "character 1, 'stat': "),
        (("--sort", "weight"), "'weight' is no order of runs; write started or -started"),
        (("--after", "x"), "'x'"),
        (
            ("started:today", "--zone", "Mars"),
            "there is no time zone 'Mars'; write a name such as Europe/Berlin, or UTC",
        ),
        (("--out", "runs.csv"), "--out needs the kind of file; write --format csv or --format ndjson"),
        (("stat:failed", "--format", "csv"), "character 1, 'stat': "),
        (("label.Team=ops",), "the label key 'Team' is not taken"),
    ],
)
def test_a_line_that_is_not_understood_is_one_sentence(actor, words, said):
    done = command("run", "list", *words)
    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert said in done.err


def test_a_run_is_shown_by_any_part_that_begins_or_ends_its_id_alone(queued):
    for part in (queued, queued[-12:], queued[:30]):
        done = command("run", "show", part)
        assert (done.code, done.out.splitlines()[0]) == (0, f"Run {queued}")
    assert "  state      queued\n" in done.out
    assert f"  page       {settings.FABRIC_PUBLIC_URL}/runs/{queued}\n" in done.out
    shown = command("run", "show", queued[-12:], "--json").last
    assert (shown["run_id"], shown["state"]) == (queued, "queued")


def test_a_part_of_several_ids_lists_what_it_matches(actor, small):
    both = [ran(actor, small).id for _ in range(2)]
    done = command("run", "show", both[0][:4])
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert f"several runs have an id that begins or ends with {both[0][:4]!r}: {both[1]}, {both[0]};" in done.err
    assert "there is no run 'zzz'" in command("run", "show", "zzz").err


def test_other_commands_take_the_twelve_digits_that_pages_show(actor, small, doubtful):
    run = ran(actor, small)
    for words in (("run", "explain"), ("admin", "replay"), ("admin", "verify", "--run"), ("admin", "rebuild", "--run")):
        assert command(*words, run.id[-12:], "--json").code == 0, words
    asked = command("run", "start", doubtful, "--input", "Well?", "--json").last
    (review,) = asked["reviews"]
    part = review["id"][-12:]
    assert command("review", "show", part, "--json").last["id"] == review["id"]
    assert command("review", "decide", part, "reject", "--message", "No.", "--json").last["item"] == review["id"]


def test_a_run_is_followed_again(queued):
    done = command("run", "follow", queued[-12:], "--json", terminal=True)
    assert (done.code, done.last["state"]) == (0, "completed")
    assert len(done.err.splitlines()) == done.last["events"] + 2
    again = command("run", "follow", queued, "--json")
    assert (again.code, again.last) == (0, done.last)


def test_a_file_named_without_its_sign_is_read_one_release_more(small, tmp_path):
    (tmp_path / "request.txt").write_text("What is in the file?")
    done = command("run", "start", small, "-i", str(tmp_path / "request.txt"), "--json")
    assert done.code == 0
    assert done.err.startswith("`--input FILE` is now `--input @FILE`;")
    assert Run.objects.get().title == "What is in the file?"


def test_each_state_has_a_colour_on_a_terminal_alone(monkeypatch):
    assert set(TONES) == set(RunState)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert paint("failed", "failed", terminal=True) == "\x1b[31mfailed\x1b[0m"
    assert paint("failed", "failed", terminal=False) == "failed"
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint("failed", "failed", terminal=True) == "failed"


def test_labels_are_given_at_the_start_and_changed_later(store, actor, small):
    done = command(
        "run", "start", small, "--input", "What?", "--label", "team=ops", "--label", "site=New York", "--json"
    )
    assert done.last["labels"] == {"site": "New York", "team": "ops"}
    run_id = done.last["run_id"]
    assert "labels     site=New York, team=ops" in command("run", "show", run_id).out
    assert command("run", "list", "-q", "label.team=ops").out == f"{run_id}\n"
    assert command("run", "label", run_id, "team=", "x").code == 2
    assert command("run", "label", run_id, "team=it", "site-", "none-").out == "team=it\n"
    assert command("run", "label", run_id, "team-", "--json").last == {"run_id": run_id, "labels": {}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("team",), "'team' is no label; write KEY=VALUE, such as team=ops"),
        (("Team=ops",), "the label key 'Team' is not taken; use lower-case letters, digits, -, _ and ."),
        (("a=1", "a=2"), "label a stands twice"),
    ],
)
def test_a_label_that_is_not_taken_is_one_sentence(actor, small, given, said):
    done = command("run", "start", small, "--input", "What?", *(word for one in given for word in ("--label", one)))
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert not Run.objects.exists()


def test_all_that_match_are_written_as_a_file(actor, small, tmp_path, capsysbinary):
    ids = [ran(actor, small).id for _ in range(3)]
    command("run", "list", "state:completed", "--format", "ndjson")
    assert [json.loads(line)["id"] for line in capsysbinary.readouterr().out.splitlines()] == ids[::-1]
    done = command("run", "list", "--sort", "started", "--format", "csv", "--out", str(tmp_path / "runs.csv"))
    assert (done.code, done.err) == (0, f"3 runs are in {tmp_path / 'runs.csv'}.\n")
    assert [row["id"] for row in csv.DictReader((tmp_path / "runs.csv").open())] == ids


def test_days_are_those_of_the_zone_that_is_named(queued, monkeypatch):
    at = datetime(2026, 7, 5, 22, 30, tzinfo=UTC)
    Run.objects.update(created_at=round(at.timestamp() * 1e6))
    for zone, found in (("Europe/Berlin", ""), ("UTC", f"{queued}\n")):
        assert command("run", "list", "-q", "started:2026-07-05", "--zone", zone).out == found
    monkeypatch.setattr(machine_zone, "LOCALTIME", Path("/usr/share/zoneinfo/Europe/Berlin"))
    assert str(machine_zone.choose_zone()) == "Europe/Berlin"
    monkeypatch.setattr(machine_zone, "LOCALTIME", Path("/nowhere"))
    assert machine_zone.choose_zone() is UTC
