"""An OpenAI-compatible endpoint over real HTTP that answers, and misbehaves, on script.

``with ScriptedEndpoint([answer("hello")]) as endpoint: ...  # endpoint.url``. By hand: ``manage.py dev endpoint
--fault rate_limit``.
"""

from simulator.endpoint.wire.server import Received, Script, ScriptedEndpoint
from simulator.endpoint.wire.steps import (
    Step,
    answer,
    bad_json,
    call,
    cut_stream,
    drop,
    empty,
    error_body,
    hang,
    hang_up,
    html,
    refusal,
    stall,
    trickle,
    unfit_text,
)

__all__ = [
    "Received",
    "Script",
    "ScriptedEndpoint",
    "Step",
    "answer",
    "bad_json",
    "call",
    "cut_stream",
    "drop",
    "empty",
    "error_body",
    "hang",
    "hang_up",
    "html",
    "refusal",
    "stall",
    "trickle",
    "unfit_text",
]
