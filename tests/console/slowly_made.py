"""A provider whose making takes a while, inside of a library, where an engine is started: what a worker may be told to end in."""

import sys
import threading
import time
from typing import Annotated

from celery.worker import state
from pydantic import BeforeValidator, TypeAdapter

from simulator.agents.provider import ScriptedProvider

BEING_MADE = "The provider is being made."
LONGER_S = 3.0
"""How long it takes once the worker was told to end."""


def _wait(value: int) -> int:
    print(BEING_MADE, file=sys.stderr, flush=True)
    while state.should_stop is None:
        time.sleep(0.001)
    told = time.monotonic()
    while time.monotonic() < told + LONGER_S:
        time.sleep(0.001)
    return value


class SlowlyMade(ScriptedProvider):
    """Scripted agents."""

    def __init__(self) -> None:
        super().__init__()
        if threading.current_thread() is threading.main_thread():
            return  # The worker looks first whether it can be had at all.
        TypeAdapter(Annotated[int, BeforeValidator(_wait)]).validate_python(1)
