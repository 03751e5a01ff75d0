"""`manage.py admin retention`: erases the contents of runs beyond their workspace's retention; sets the retention."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from fabric.management.base import OK, FabricCommand
from fabric.models import Workspace
from fabric.services.actors import owner_actor
from fabric.services.installation.retention import retention_apply, retention_set
from fabric.services.memories.retention import entries_prune, values_expire


class Command(FabricCommand):
    """Erases contents, shows those that are due, or sets the retention."""

    help = (
        "Erase what runs were given and said, the days after their end that their workspace keeps it; headers and the "
        "chain stay. What fabrics remember goes by its memory's retention_days; entries that were erased, and that nothing needs any more, "
        "leave its ledger. Workers do it once a day by themselves. What is erased is gone for good."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the actions."""
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--dry-run", action="store_true", help="say what would be erased, and erase nothing")
        what.add_argument("--days", type=int, metavar="N", help="from now on keep contents N days; erases nothing yet")
        what.add_argument("--for-good", action="store_true", help="from now on erase nothing")
        parser.add_argument("--json", action="store_true", help="end with one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Carry out the chosen action."""
        actor = owner_actor()
        if options["days"] is not None or options["for_good"]:
            retention_set(actor=actor, days=options["days"])
        days = Workspace.objects.values_list("retention_days", flat=True).get(id=actor.workspace_id)
        kept = "for good" if days is None else f"{days:,} days after a run's end"
        if options["days"] is not None or options["for_good"]:
            self.stdout.write(f"Contents are kept {kept}.")
            return OK
        dry = options["dry_run"]
        erased = retention_apply(dry_run=dry)
        values, entries = values_expire(dry_run=dry), sum(entries_prune(dry_run=dry).values())
        if options["json"]:
            runs = [{"run_id": one.run_id, "ended_at": one.ended_at, "events": one.events} for one in erased]
            memories = {"values": values, "entries": entries}
            self.put({"days": days, "dry_run": dry, "runs": runs, "memories": memories})
            return OK
        for one in erased:
            self.stdout.write(f"{one.run_id}  {one.events:>5} contents")
        how = "would be" if dry else "were"
        self.stdout.write(f"The contents of {len(erased):,} runs {how} erased; they are kept {kept}.")
        if values or entries:
            self.stdout.write(
                f"Of what fabrics remember, {values:,} values {how} erased for their age, and {entries:,} entries without one {how} "
                "taken out of the ledger."
            )
        return OK
