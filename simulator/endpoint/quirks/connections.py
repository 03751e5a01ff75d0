"""The endpoint is late, goes silent, or breaks the connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from simulator.endpoint.behaviour.definition import Behaviour
from simulator.endpoint.behaviour.misbehaviour import always, healthy
from simulator.endpoint.behaviour.turns import Turn
from simulator.endpoint.wire import steps
from simulator.endpoint.wire.steps import Step


def _double_chunk(turn: Turn) -> Step:
    return replace(healthy(turn), stream="doubled")


BEHAVIOURS: Mapping[str, Behaviour] = {
    "slow": Behaviour(healthy, delay_s=10.0),
    "hang": Behaviour(always(steps.hang())),
    "trickle": Behaviour(always(steps.trickle(every_s=0.2))),
    "stall": Behaviour(always(steps.stall())),
    "dropped_stream": Behaviour(always(steps.drop())),
    "hang_up": Behaviour(always(steps.hang_up())),
    "cut_stream": Behaviour(always(steps.cut_stream())),
    "doubled_chunk": Behaviour(_double_chunk),
}
"""The behaviour of each fault whose ``play`` is this module."""
