"""Charges one attempt of a call. A model's attempt costs its endpoint's bill if known, else its reservation. A
tool's attempt costs the tool's price.
"""

from __future__ import annotations

from fabric.core.events.inputs import CallFailed, ModelReplied
from fabric.core.values.cost import Price
from fabric.core.values.frozen import value
from fabric.core.values.saga import Outcome


@value()
class Charge:
    """Money and tokens of one attempt."""

    usd_micros: int
    tokens: int
    billed: bool = False
    """True: the endpoint reported it. False: it is the reservation, or nothing."""


NOTHING = Charge(0, 0)


def charge(price: Price | None, reserved: Charge, given: ModelReplied | CallFailed) -> Charge:
    """Charge an attempt. ``reserved``: its worst case; ``price`` None: the model has none, so that only the
    reservation is known.

    A refused answer is charged as it was billed. Where only one side of its tokens is known, the other may be
    anything: it is charged at least its reservation, unless nothing was billed.
    """
    tokens = given.input_tokens + given.output_tokens
    if isinstance(given, ModelReplied):
        usd = given.cost_usd_micros
        if usd is None:
            usd = reserved.usd_micros if price is None else price.cost(*_tokens(given), given.parts)
        return Charge(usd, tokens, billed=True)
    least = reserved if given.billed else NOTHING
    if given.cost_usd_micros is None and (price is None or not tokens):
        return least
    usd = given.cost_usd_micros
    if usd is None:
        assert price is not None
        usd = price.cost(*_tokens(given), given.parts)
        if not (given.input_tokens and given.output_tokens):
            return Charge(max(usd, least.usd_micros), max(tokens, least.tokens), billed=usd > least.usd_micros)
    return Charge(usd, tokens, billed=True)


def charge_tool(price: int, given: CallFailed) -> Charge:
    """Charge a failed attempt of a tool's call with the tool's price. ``price``: micro-dollars of one attempt.

    It costs nothing if it was certainly never sent: no server has answered, and nothing was done.
    """
    unsent = given.outcome is Outcome.REJECTED and given.status is None
    return NOTHING if unsent else Charge(price, 0, billed=True)


def _tokens(given: ModelReplied | CallFailed) -> tuple[int, int]:
    return given.input_tokens, given.output_tokens
