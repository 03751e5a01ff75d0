"""``manage.py dev booking``: the booking service of the samples and drills, on a loopback port."""

from __future__ import annotations

import threading
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from simulator.booking import BookingDesk, Faults, Ledger
from simulator.endpoint import ScriptedEndpoint


class Command(BaseCommand):
    """Serves until interrupted."""

    requires_system_checks: list[str] = []  # noqa: RUF012 - Django's own declaration, and its type.

    help = "Serves a small booking service for fabrics whose tools change something; its ledger says what was done."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the options."""
        parser.add_argument("--port", type=int, default=8421, help="on 127.0.0.1 (default 8421; 0: any free one)")
        parser.add_argument("--ledger", type=Path, help="where it writes down what it did (default: in FABRIC_DATA)")
        for name, what in (("lost", "are done but not answered"), ("slow", "take a second"), ("refused", "get a 503")):
            parser.add_argument(f"--{name}", type=float, default=0.0, help=f"share of first requests that {what}")

    def handle(self, *args: Any, **options: Any) -> None:
        """Serve. Raises CommandError with exit code 2 for a port in use, an unwritable ledger, or an invalid share."""
        shares = {name: options[name] for name in ("lost", "slow", "refused")}
        if not all(0 <= share <= 1 for share in shares.values()) or sum(shares.values()) > 1:
            raise CommandError(
                "--lost, --slow and --refused are shares: from 0 to 1, and at most 1 together", returncode=2
            )
        path = options["ledger"] or Path(settings.FABRIC_DATA) / "booking.ndjson"
        try:
            desk = BookingDesk(Ledger(path), Faults(**shares))
            with ScriptedEndpoint(desk.reply, port=options["port"], keep=False) as endpoint:
                self.stdout.write(
                    f"Booking service at http://{endpoint.authority}/bookings, ledger {path}. Ctrl-C ends it."
                )
                self.stdout.write(f"A fabric may use it where FABRIC_ALLOWED_HOSTS has {endpoint.authority}.")
                threading.Event().wait()
        except OSError as error:
            raise CommandError(
                f"port {options['port']} or {path} cannot be used: {error.strerror or error}", returncode=2
            ) from None
        except KeyboardInterrupt:
            return
