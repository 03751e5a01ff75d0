"""The OpenAI Agents SDK as a client, and both ways of asking it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.peers.openai_agents.agents_sdk import Client, client


@pytest.fixture(scope="module")
def sdk() -> Iterator[Client]:
    with client() as found:
        yield found


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def stream(request: Any) -> bool:
    return bool(request.param)
