"""Policies that remember what they said: thousands of worlds ask them the same things about the same few agents.

An evaluator is a function of the revision and of what it is given alone (``core/evaluators.py``), so an answer that is known need not be worked out again.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import msgspec

from fabric.core.evaluators import Asked, Evaluators, Ruling

KEPT = 2_000
"""Answers that are kept of one fabric."""
_said = msgspec.msgpack.Encoder().encode
_heard = msgspec.msgpack.Decoder(Asked).decode


def remembering_rules(evaluators: Evaluators) -> Evaluators:
    """The same evaluators, whose policies are asked about the same action once."""
    rules = evaluators.rules
    if rules is None:
        return evaluators
    ask = rules

    @lru_cache(maxsize=KEPT)
    def answers(asked: bytes) -> Ruling:
        return ask(_heard(asked))

    return replace(evaluators, rules=lambda asked: answers(_said(asked)))
