"""Charges one attempt of a call. A model's costs what its endpoint billed where that is known, else what was reserved. A tool's costs its price."""

from __future__ import annotations

from fabric.core.cost import Price
from fabric.core.frozen import value
from fabric.core.inputs import CallFailed, ModelReplied
from fabric.core.saga import Outcome


@value()
class Charge:
    """Money and tokens of one attempt."""

    usd_micros: int
    tokens: int
    billed: bool = False
    """True: the endpoint said so. False: it is the reservation, or nothing."""


NOTHING = Charge(0, 0)


def charge(price: Price | None, reserved: Charge, given: ModelReplied | CallFailed) -> Charge:
    """Charges an attempt. ``reserved``: its worst case; ``price`` None: the model has none, so that only the reservation is known.

    A refused answer is charged as it was billed. Where only one side of its tokens is known, the other may be anything: it is charged at
    least its reservation, unless nothing was billed.
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
    """Charges an attempt of a tool's call that failed: its price, whatever came back. ``price``: micro-dollars of one attempt.

    It costs nothing where it is certain that it was never sent: no server has answered, and nothing was done.
    """
    unsent = given.outcome is Outcome.REJECTED and given.status is None
    return NOTHING if unsent else Charge(price, 0, billed=True)


def _tokens(given: ModelReplied | CallFailed) -> tuple[int, int]:
    return given.input_tokens, given.output_tokens
