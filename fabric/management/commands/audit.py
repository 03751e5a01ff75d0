"""`manage.py audit list|export|verify|hold|lift|rule`: the audit stream from the command line of this machine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from fabric.composition import engine as wiring
from fabric.core.audit.acts import Outcome, SubjectKind
from fabric.core.values.words import instant
from fabric.management.base import OK, OTHER_END, FabricCommand
from fabric.secrets.signing import verify_signature
from fabric.selectors.audit.files import AuditLines, file_verify, record_json
from fabric.selectors.audit.holds import ABOUT, HoldView, holds_list
from fabric.selectors.audit.lookup import PAGE_MAX, AuditFilter, audit_page
from fabric.selectors.list_file import FORMS
from fabric.services.actors import owner_actor
from fabric.services.audit.export import audit_export
from fabric.services.audit.holds import hold_lift, hold_place
from fabric.services.audit.retention import ALL, audit_retain, audit_rule_set, audit_rules
from fabric.services.errors import Refused

DAY_US = 86_400 * 1_000_000


class Command(FabricCommand):
    """Lists, exports and verifies audit records, places and lifts holds, sets the retention of records."""

    help = (
        "List the audit stream, or write it to a file that verifies offline. Verify such a file. "
        "Hold a run, a fabric or a person. Say how many days records are kept."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the actions and the filters of records."""
        actions = parser.add_subparsers(
            dest="action", required=True, metavar="list|export|verify|holds|hold|lift|rule|retain"
        )
        listing = actions.add_parser("list", help="the newest records first")
        exporting = actions.add_parser("export", help="all records, the oldest first, to standard output or a file")
        for one in (listing, exporting):
            one.add_argument("--by", default="", metavar="NAME", help="only by this actor")
            one.add_argument("--act", default="", help="only this act, such as token_created")
            one.add_argument("--object", default="", metavar="ID", help="only about this id or name")
            one.add_argument("--about", default="", help=f"only about this kind: {', '.join(SubjectKind)}")
            one.add_argument("--outcome", default="", help=f"only with this outcome: {', '.join(Outcome)}")
            one.add_argument("--address", default="", help="only from this client address")
            one.add_argument("--days", type=int, default=0, metavar="N", help="only of the last N days")
        listing.add_argument("--limit", type=int, default=50, metavar="N", help=f"1 to {PAGE_MAX} (default: 50)")
        exporting.add_argument("--form", default="ndjson", help=f"{' or '.join(FORMS)} (default: ndjson)")
        exporting.add_argument("--to", type=Path, metavar="FILE", help="a file that is not there yet")
        verifying = actions.add_parser(
            "verify", help="check the chain of an export of everything, as NDJSON, without the database"
        )
        verifying.add_argument("file", type=Path)
        verifying.add_argument(
            "--key", action="append", default=[], metavar="HEX", help="a public key that signed markers before"
        )
        actions.add_parser("holds", help="the holds")
        holding = actions.add_parser("hold", help="place a hold: nothing that it covers is removed")
        holding.add_argument("about", choices=ABOUT)
        holding.add_argument("name")
        lifting = actions.add_parser("lift", help="lift a hold")
        lifting.add_argument("hold", metavar="ID")
        for one in (holding, lifting):
            one.add_argument("--reason", default="", help="why; it is kept in the audit stream")
        ruling = actions.add_parser("rule", help="say how many days records of an act are kept, or list the rules")
        ruling.add_argument(
            "kind", nargs="?", default="", metavar="ACT", help=f"an act, or {ALL} for all without a rule"
        )
        ruling.add_argument("--days", type=int, default=None, metavar="N")
        ruling.add_argument("--for-good", action="store_true", help="without a rule from now on")
        retaining = actions.add_parser(
            "retain", help="remove what is older than the rules say; workers do it once a day"
        )
        retaining.add_argument("--dry-run", action="store_true", help="say how many would be removed")
        for one in (listing, holding, lifting, ruling, retaining, actions.choices["holds"], verifying):
            one.add_argument("--json", action="store_true", help="lines of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Carry out the chosen action."""
        code: int = getattr(self, f"_{options['action']}")(options)
        return code

    def _list(self, options: dict[str, Any]) -> int:
        for row in audit_page(owner_actor(), _filter(options), limit=options["limit"]).rows:
            if options["json"]:
                self.put(record_json(row))
            else:
                why = f" ({row.reason})" if row.reason else ""
                where = f" from {row.address}" if row.address else ""
                self.stdout.write(f"{instant(row.at)}  {row.actor} {row.sentence}: {row.subject}{where}{why}")
        return OK

    def _export(self, options: dict[str, Any]) -> int:
        def lines() -> AuditLines:
            return audit_export(actor=owner_actor(), wanted=_filter(options), form=options["form"])

        self.write_list(lines, options["to"], field="to")
        return OK

    def _verify(self, options: dict[str, Any]) -> int:
        trusted = {wiring.signer().public, *(key.lower() for key in options["key"])}
        with options["file"].open("rb") as file:
            found = file_verify(file, verified=verify_signature, trusted=trusted)
        if options["json"]:
            self.put({"records": found.count, "whole": found.whole, "problems": found.problems})
        else:
            for problem in found.problems:
                self.stdout.write(problem)
            part = (
                ""
                if found.whole
                else ", a part of the stream: each record was checked, and what is between them was not"
            )
            self.stdout.write(f"Looked at {found.count:,} records{part}: {len(found.problems) or 'nothing'} wrong.")
        return OTHER_END if found.problems else OK

    def _holds(self, options: dict[str, Any]) -> int:
        for one in holds_list(owner_actor()):
            self._hold_said(one, options)
        return OK

    def _hold(self, options: dict[str, Any]) -> int:
        placed = hold_place(actor=owner_actor(), about=options["about"], name=options["name"], reason=options["reason"])
        return self._hold_said(placed, options)

    def _lift(self, options: dict[str, Any]) -> int:
        return self._hold_said(
            hold_lift(actor=owner_actor(), hold_id=options["hold"], reason=options["reason"]), options
        )

    def _hold_said(self, one: HoldView, options: dict[str, Any]) -> int:
        if options["json"]:
            self.put({name: getattr(one, name) for name in HoldView.__dataclass_fields__})
        else:
            stands = "stands" if one.open else f"lifted by {one.lifted_by}: {one.lifted_because}"
            self.stdout.write(f"{one.id}  {one.about} {one.name}  placed by {one.placed_by}: {one.reason}  {stands}")
        return OK

    def _rule(self, options: dict[str, Any]) -> int:
        actor = owner_actor()
        if options["kind"]:
            if options["days"] is None and not options["for_good"]:
                raise Refused("say how long: --days N, or --for-good", code="invalid", field="days")
            audit_rule_set(actor=actor, kind=options["kind"], days=options["days"])
        rules = dict(audit_rules(actor))
        if options["json"]:
            self.put({"rules": rules})
            return OK
        for kind, days in sorted(rules.items()):
            self.stdout.write(f"{kind}: {days:,} days")
        if not rules:
            self.stdout.write("No rule removes any record.")
        return OK

    def _retain(self, options: dict[str, Any]) -> int:
        count = audit_retain(signer=wiring.signer(), dry_run=options["dry_run"])
        if options["json"]:
            self.put({"records": count, "dry_run": options["dry_run"]})
        else:
            self.stdout.write(f"{count:,} records {'would be' if options['dry_run'] else 'were'} removed.")
        return OK


def _filter(options: dict[str, Any]) -> AuditFilter:
    days = options["days"]
    if not 0 <= days <= 36_500:
        raise Refused(
            f"--days {days:,} is out of range; give 1 to 36,500, or leave --days out", code="invalid", field="days"
        )
    return AuditFilter(
        actor=options["by"],
        act=options["act"],
        subject=options["object"],
        about=options["about"],
        outcome=options["outcome"],
        address=options["address"],
        since=time.time_ns() // 1_000 - days * DAY_US if days else 0,
    )
