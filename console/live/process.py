"""The hub of this process, made when the first page follows a run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from weakref import WeakKeyDictionary

from console.live.hub import Ear, Heard, LiveHub
from console.live.source import DatabaseSource
from fabric import wiring
from fabric.adapters.nudge import Nudged

_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, LiveHub] = WeakKeyDictionary()


def live_hub() -> LiveHub:
    """The hub of the running loop; a server process has one loop and so one hub."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = LiveHub(DatabaseSource(), _listen)
    return _hubs[loop]


def _listen(heard: Heard) -> Ear:
    def on_message(message: Nudged) -> None:
        seqs: Mapping[str, int] = message.run_seqs
        heard(seqs)

    return wiring.listener(on_message, "told")
