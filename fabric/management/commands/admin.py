"""`manage.py admin VERB`: verifies, replays and rebuilds what is stored, and erases old contents."""

from __future__ import annotations

from django.core.management.base import CommandParser

from fabric.management.base import FabricCommand
from fabric.management.nouns import add_verbs

VERBS = {
    "verify": ("verify_audit", "verify journals, audit stream and checkpoints by their hashes and signatures"),
    "replay": ("replay_run", "read journals again, and compare them with what the tables say"),
    "rebuild": ("rebuild_projections", "work out the rows of runs again from their events"),
    "retention": ("retention", "erase old contents, or say how long they are kept"),
}


class Command(FabricCommand):
    """Names commands of their own."""

    help = "Verify journals, replay and rebuild runs from their events, and erase old contents."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the verbs."""
        add_verbs(parser.add_subparsers(dest="action", required=True, metavar="VERB"), VERBS)
