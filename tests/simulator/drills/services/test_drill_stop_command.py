"""`manage.py drill stop` and `manage.py drill list`."""

from __future__ import annotations

from simulator.drills.services.drills import drill_ask
from tests.fabric.management.console import command


def test_it_is_pulled_shown_and_released(actor, small):
    drill_ask(actor=actor, fabric=small, cells="all")
    assert command("drill", "stop", "show").out == "Drills are allowed.\n"
    said = command("drill", "stop", "pull", "--reason", "Enough.")
    assert said.code == 0
    assert said.out.startswith("24 drills were stopped.\nowner stopped all drills on 20")
    assert said.out.endswith("UTC: Enough.\n")
    told = command("drill", "stop", "show", "--json").last
    assert (told["pulled"], told["by"], told["reason"], told["stopped"]) == (True, "owner", "Enough.", 0)
    again = command("drill", "stop", "pull", "--reason", "Me too.")
    assert again.code == 2
    assert "stopped already" in again.err
    assert command("drill", "stop", "release", "--reason", "Go on.").code == 0
    assert command("drill", "stop", "show", "--json").last == {"pulled": False, "stopped": 0}


def test_it_needs_a_reason(actor):
    said = command("drill", "stop", "pull")
    assert said.code == 2
    assert "needs a reason" in said.err


def test_kept_drills_are_listed_the_newest_first(actor, small):
    assert command("drill", "list").err == "no drill was kept\n"
    drill_ask(actor=actor, fabric=small, cells="all")
    lines = command("drill", "list", small, "--limit", "2").out.splitlines()
    found = command("drill", "list", "--limit", "2", "--json").last
    assert (len(lines), len(found["drills"]), found["more"]) == (2, 2, True)
    for line, one in zip(lines, found["drills"], strict=True):
        assert line.startswith(f"{one['id'][-12:]}  queued     small@r1  ")
        assert line.endswith(" UTC by owner")
    assert command("drill", "list", "-q", "--limit", "2").out.split() == [one["id"] for one in found["drills"]]
    assert command("drill", "list", "none").out == ""
