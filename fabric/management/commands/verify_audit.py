"""`manage.py admin verify [--run R]`: verifies journals, audit stream and checkpoints by their hashes and
signatures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from fabric.composition import engine as wiring
from fabric.management.base import OK, OTHER_END, FabricCommand
from fabric.models import Run
from fabric.secrets.signing import verify_signature
from fabric.selectors.audit.journal_verification import AuditFinding, VerifiedCounts, verify_journals
from fabric.selectors.audit.stream_verification import verify_checkpoints, verify_streams
from fabric.selectors.whole_ids import complete_id
from fabric.services.errors import Refused

FINDINGS_MAX = 1_000
"""Largest number of findings in the line of JSON; all are counted."""
_key = re.compile(r"[0-9a-f]{64}")


class Command(FabricCommand):
    """Verifies everything, or one run."""

    help = (
        "Verify the chain, contents, density and end of every journal, the audit stream, and the signed checkpoints "
        "over both. Says each thing that is wrong with its run and event; exit code 1 when there is any."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the run, or the option for all of them, and earlier keys."""
        parser.add_argument("--run", default="", metavar="RUN", help="that run alone, and what checkpoints say of it")
        parser.add_argument(
            "--key", action="append", default=[], metavar="HEX", help="a public key that signed checkpoints before"
        )
        parser.add_argument("--json", action="store_true", help="nothing but a line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Verify, and report each fault as it is found."""
        counted, faults = VerifiedCounts(), 0
        findings: list[dict[str, Any]] = []
        for finding in self._findings(counted, options):
            faults += 1
            if len(findings) < FINDINGS_MAX:
                findings.append(
                    {"fault": finding.fault, "run_id": finding.run_id, "seq": finding.seq, "says": finding.says}
                )
            if not options["json"]:
                self.stdout.write(f"{finding.fault.value}: {finding.says}")
        if options["json"]:
            numbers = {name: getattr(counted, name) for name in counted.__slots__}
            self.put({**numbers, "faults": faults, "findings": findings})
        else:
            self._sum_up(counted, faults)
        return OTHER_END if faults else OK

    def _findings(self, counted: VerifiedCounts, options: dict[str, Any]) -> Iterator[AuditFinding]:
        run_id, keys = complete_id(Run.objects.all(), options["run"], "run"), [key.lower() for key in options["key"]]
        if bad := [key for key in keys if not _key.fullmatch(key)]:
            raise Refused(
                f"{bad[0][:80]!r} is no public key; give its 64 hexadecimal digits", code="invalid", field="key"
            )
        trusted = {wiring.signer().public, *keys}
        checkpoints = verify_checkpoints(
            counted,
            verified=verify_signature,
            trusted=trusted,
            run_id=run_id,
            folder=settings.FABRIC_CHECKPOINTS,
        )
        found = verify_journals(counted, run_id)
        if not run_id:
            return chain(found, verify_streams(counted, verified=verify_signature, trusted=trusted), checkpoints)
        both = list(chain(found, checkpoints))
        if not both and not Run.objects.filter(id=run_id).exists():
            raise Refused(
                f"there is no run {run_id[:80]!r}, and there was none; look at the list of runs", code="not_found"
            )
        return iter(both)

    def _sum_up(self, counted: VerifiedCounts, faults: int) -> None:
        looked = (
            f"{counted.runs:,} runs with {counted.events:,} events, {counted.lines:,} audit lines, "
            f"{counted.checkpoints:,} checkpoints"
        )
        erased = f"; the contents of {counted.erased:,} runs were erased" if counted.erased else ""
        unsealed = f"; {counted.unsealed:,} audit lines wait to be sealed" if counted.unsealed else ""
        result = f"{faults:,} things are wrong" if faults else "nothing is wrong"
        self.stdout.write(f"Looked at {looked}{erased}{unsealed}: {result}.")
