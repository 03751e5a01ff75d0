"""Options of commands that drill live on this installation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from django.core.management.base import CommandParser

from fabric.core.values.units import MICROS
from fabric.services.errors import Refused
from simulator.drills.live.conditions import CAP_S, CAP_S_MAX, CAP_S_MIN, CAP_USD_MICROS_MAX
from simulator.drills.management.numbers import number_given

MOST_USD = CAP_USD_MICROS_MAX // 1_000_000
CHARS_MAX = 20
CAPS = ("cap_s", "cap_usd")


@dataclass(frozen=True, slots=True)
class Caps:
    """Caps of each drill; None for those of ``how_asked``."""

    cap_s: int | None
    cap_usd_micros: int | None


def add_here(parser: CommandParser, *, what: str) -> None:
    """Add the options. ``what``: the requirement on FABRIC, for the help."""
    parser.add_argument(
        "--here",
        action="store_true",
        help=f"with --live: on this installation's own workers, in a workspace of drills; {what}. The drills are kept",
    )
    parser.add_argument(
        "--cap-s", metavar="N", help=f"with --here: each drill is ended after so many seconds ({CAP_S})"
    )
    parser.add_argument(
        "--cap-usd",
        metavar="D",
        help="with --here: each drill is ended when its runs have cost more dollars by their meters (three runs' caps, $1 at most)",
    )


def here_given(options: Mapping[str, Any]) -> Caps | None:
    """Return the caps of drills on this installation; None if not requested.

    Raises Refused invalid for options that need --live or --here, and for a wrong cap.
    """
    capped = [name for name in CAPS if options[name] is not None]
    if not options["here"] and not capped:
        return None
    if not options["here"] or not options["live"]:
        field = "here" if options["here"] else capped[0]
        told = (
            "--here is of live drills: give --live as well"
            if options["here"]
            else f"--{field.replace('_', '-')} is of drills with --live --here"
        )
        raise Refused(told, code="invalid", field=field)
    cap_s = None if options["cap_s"] is None else number_given("--cap-s", options["cap_s"], CAP_S_MIN, CAP_S_MAX)
    return Caps(cap_s, None if options["cap_usd"] is None else _micros(options["cap_usd"]))


def _micros(given: str) -> int:
    """Dollars as micro-dollars."""
    try:
        micros = Decimal(given) * MICROS if given.isascii() and len(given) <= CHARS_MAX else Decimal("NaN")
    except InvalidOperation:
        micros = Decimal("NaN")
    if not micros.is_finite() or micros != micros.to_integral_value() or not 1 <= micros <= CAP_USD_MICROS_MAX:
        message = f"--cap-usd is {given[:40]!r}: give dollars from 0.000001 to {MOST_USD:,}, six decimal places at most"
        raise Refused(message, code="invalid", field="cap_usd")
    return int(micros)
