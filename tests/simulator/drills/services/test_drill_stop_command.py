"""`manage.py drill_stop`."""

from __future__ import annotations

from simulator.drills.services.drills import drill_ask
from tests.fabric.management.console import command


def test_it_is_pulled_shown_and_released(actor, small):
    drill_ask(actor=actor, fabric=small, cells="all")
    assert command("drill_stop", "show").out == "Drills are allowed.\n"
    said = command("drill_stop", "pull", "--reason", "Enough.")
    assert said.code == 0
    assert said.out.startswith("24 drills were stopped.\nowner stopped all drills on 20")
    assert said.out.endswith("UTC: Enough.\n")
    told = command("drill_stop", "show", "--json").last
    assert (told["pulled"], told["by"], told["reason"], told["stopped"]) == (True, "owner", "Enough.", 0)
    again = command("drill_stop", "pull", "--reason", "Me too.")
    assert again.code == 2
    assert "stopped already" in again.err
    assert command("drill_stop", "release", "--reason", "Go on.").code == 0
    assert command("drill_stop", "show", "--json").last == {"pulled": False, "stopped": 0}


def test_it_needs_a_reason(actor):
    said = command("drill_stop", "pull")
    assert said.code == 2
    assert "needs a reason" in said.err
