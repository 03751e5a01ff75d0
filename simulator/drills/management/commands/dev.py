"""`manage.py dev VERB`: what plays and measures in installations of its own."""

from __future__ import annotations

from django.core.management.base import CommandParser

from fabric.management.base import FabricCommand
from fabric.management.nouns import add_verbs

VERBS = {
    "simulate": ("simulate", "play the engine under faults in simulated time"),
    "endpoint": ("simulate_endpoint", "serve a model endpoint that fails by script"),
    "booking": ("booking", "serve the booking service of the samples"),
    "scoreboard": ("scoreboard", "play what models and providers do wrong against a new fabric's defaults"),
    "detectors": ("evaluate_detectors", "say which recorded runs the loop detectors would have stopped"),
    "bench": ("bench", "measure speed and counts; in a checkout"),
    "chaos": ("chaos", "kill, stop and cut the parts of an installation; in a checkout"),
}


class Command(FabricCommand):
    """Names commands of their own."""

    help = "Play and measure: the engine in simulated time, scripted endpoints, detectors; in a checkout speed and chaos too."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the verbs."""
        add_verbs(parser.add_subparsers(dest="action", required=True, metavar="VERB"), VERBS)
