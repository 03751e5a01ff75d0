"""An OpenAI-compatible endpoint over real HTTP that answers, and misbehaves, on script.

``with ScriptedEndpoint([answer("hello")]) as endpoint: ...  # endpoint.url``. By hand: ``python -m simulator.endpoint --port 8000``.
"""

from simulator.endpoint.server import Received, Script, ScriptedEndpoint
from simulator.endpoint.steps import (
    Step,
    answer,
    bad_json,
    call,
    drop,
    empty,
    hang,
    hang_up,
    html,
    refusal,
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
    "drop",
    "empty",
    "hang",
    "hang_up",
    "html",
    "refusal",
    "trickle",
    "unfit_text",
]
