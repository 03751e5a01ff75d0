"""`fabric stop|allow|stops`: stops of new runs from the command line."""

from argparse import ArgumentTypeError

import pytest

from fabric.management.output.stops import read_span
from fabric.models import StartStop
from fabric.services.runs.start import run_start
from fabric.services.runs.stop_work import stops_carry_out
from tests.fabric.management.console import command
from tests.fabric.services.world import HeardNudge


def test_new_runs_of_a_fabric_are_stopped_listed_and_allowed(store, nudge, actor, small):
    run_start(store=store, nudge=HeardNudge(), actor=actor, fabric=small, text="Why?")
    made = command("fabric", "stop", small, "--reason", "Its tool.", "--running", "pause", "--for", "2h")
    assert made.code == 0
    assert "new runs of small are stopped since 20" in made.out
    assert "Its tool.; workers have yet to pause runs" in made.out
    stop = StartStop.objects.get()
    assert stop.until_at == stop.stopped_at + 7_200_000_000
    stops_carry_out(store, nudge)
    assert "; 1 run paused" in command("fabric", "stops").out
    refused = command("run", "start", small, "--input", "Why?")
    assert (refused.code, "new runs of small are stopped since" in refused.err) == (2, True)
    assert command("fabric", "allow", small, "--resume", "--json").last[0]["left"] == "resume"
    stops_carry_out(store, nudge)
    assert "new runs of small were stopped 20" in command("fabric", "stops").out
    assert "; 1 run resumed" in command("fabric", "stops").out


def test_the_workspace_is_stopped_by_a_word_of_its_own(actor, small):
    assert command("fabric", "stop", "--all", "--reason", "An incident.").code == 0
    assert StartStop.objects.get().fabric_id is None
    assert command("fabric", "allow", small).err == "new runs of small are not stopped\n"
    assert command("fabric", "allow", "--all").code == 0
    assert command("run", "start", small, "--input", "Why?", "--json").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("stop", "--reason", "Why."), "name one fabric, or give --all"),
        (("stop", "small", "--all", "--reason", "Why."), "name one fabric, or give --all"),
        (("stop", "small"), "needs a reason"),
        (("allow", "--all"), "new runs are not stopped"),
    ],
)
def test_what_is_wrong_is_said(actor, small, words, said):
    done = command("fabric", *words)
    assert (done.code, said in done.err) == (2, True), done.err
    assert not StartStop.objects.exists()


def test_times_are_read_in_minutes_hours_and_days():
    assert [read_span(one) for one in ("30m", "45min", "2h", "1d")] == [1_800, 2_700, 7_200, 86_400]
    for odd in ("", "10", "10s", "0h", "-1h", "1.5h", "2 h", "9999999d"):
        with pytest.raises(ArgumentTypeError, match="is no time: write minutes, hours or days"):
            read_span(odd)
