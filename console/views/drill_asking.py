"""Which drills a form asks for, and how."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from django import forms

from fabric.core.taxonomy import FailureType, Tier
from fabric.selectors.errors import Refused
from fabric.services.runs import REASON_CHARS_MAX
from simulator.drills.covers import Cell
from simulator.drills.live_asking import CAP_S_MAX, CAP_S_MIN
from simulator.drills.models import LIVE, MODES, VIRTUAL
from simulator.drills.services import SEED_MAX, Asked, Which

WHICH: tuple[Which, ...] = ("all", "stale")
NAME_MAX = 100
MICROS = 1_000_000
CAP_S_WORDS = f"Give the time cap in whole seconds, {CAP_S_MIN} to {CAP_S_MAX:,}."
CAP_USD_WORDS = "Give the cost cap in dollars, above 0 and below 1,000,000, with six decimals at most."
WHERE = {VIRTUAL: "in virtual time", LIVE: "on this installation"}
"""Where drills of a mode are done, in words; total, by test."""


class HowForm(forms.Form):
    """In which mode drills are wanted, and the caps of live ones."""

    mode = forms.ChoiceField(required=False, choices=[(mode, mode) for mode in MODES])
    cap_s = forms.IntegerField(
        required=False,
        min_value=CAP_S_MIN,
        max_value=CAP_S_MAX,
        error_messages=dict.fromkeys(("invalid", "min_value", "max_value"), CAP_S_WORDS),
    )
    cap_usd = forms.DecimalField(
        required=False,
        min_value=Decimal("0.000001"),
        max_digits=12,
        decimal_places=6,
        error_messages=dict.fromkeys(
            ("invalid", "min_value", "max_digits", "max_decimal_places", "max_whole_digits"), CAP_USD_WORDS
        ),
    )
    reason = forms.CharField(
        required=False,
        max_length=REASON_CHARS_MAX,
        error_messages={"max_length": f"Make the reason shorter: at most {REASON_CHARS_MAX:,} characters are kept."},
    )

    @property
    def live(self) -> bool:
        """Whether it asks for live ones."""
        return self.data.get("mode") == LIVE

    def how(self) -> dict[str, Any]:
        """The mode, the caps and the reason, as ``drill_ask`` and ``scenario_ask`` take them."""
        given = self.cleaned_data
        cap = given["cap_usd"]
        return {
            "mode": given["mode"] or VIRTUAL,
            "cap_s": given["cap_s"],
            "cap_usd_micros": None if cap is None else int(cap * MICROS),
            "reason": given["reason"],
        }


class AskForm(HowForm):
    """Which cells of which fabric somebody wants to be drilled. ``cells``: ``all``, ``stale``, a failure for its row, or ``FAILURE:TIER``."""

    fabric = forms.CharField(max_length=NAME_MAX)
    cells = forms.CharField(max_length=NAME_MAX)
    number = forms.IntegerField(required=False, min_value=1, max_value=2**31 - 1)
    seed = forms.IntegerField(required=False, min_value=0, max_value=SEED_MAX)


def cells_of(text: str) -> Sequence[Cell] | Which:
    """Those that a form names. Refused invalid."""
    for which in WHICH:
        if text == which:
            return which
    failure, _, tier = text.partition(":")
    if failure in set(FailureType) and (not tier or tier in set(Tier)):
        return [(FailureType(failure), Tier(one)) for one in ((tier,) if tier else Tier)]
    message = f"{text[:80]!r} is no cell: name all, stale, a failure type, or FAILURE:TIER"
    raise Refused(message, code="invalid", field="cells")


def asked_words(asked: Asked, mode: str) -> str:
    """What was asked for, in a sentence or two."""
    count, left = len(asked.drills), asked.left_out
    rest = f" {left} that wait{'s' if left == 1 else ''} or run already left out." if left else ""
    return f"{'One cell is' if count == 1 else f'{count} cells are'} drilled {WHERE[mode]}.{rest}"
