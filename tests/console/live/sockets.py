"""Sockets as a browser opens them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.testing import ApplicationCommunicator
from django.test import Client

from console.live.hub import live_close

ORIGIN = "http://127.0.0.1:8420"


def cookie_of(browser: Client) -> str:
    """The Cookie header of a browser."""
    return "; ".join(f"{name}={morsel.value}" for name, morsel in browser.cookies.items())


class Socket(ApplicationCommunicator):
    """A browser's end of a socket."""

    async def connect(self, within_s: float = 10) -> tuple[bool, int]:
        """Return whether it was accepted, and the code where it was not."""
        await self.send_input({"type": "websocket.connect"})
        answer = await self.receive_output(within_s)
        return answer["type"] == "websocket.accept", answer.get("code", 0)

    async def send_to(self, *, text_data: str) -> None:
        """Say something."""
        await self.send_input({"type": "websocket.receive", "text": text_data})

    async def disconnect(self, code: int = 1000) -> None:
        """Go away, and wait until the other end has let go."""
        await self.send_input({"type": "websocket.disconnect", "code": code})
        await self.wait(10)


def socket(path: str, *, cookie: str = "", origin: str | None = ORIGIN, authorization: str = "") -> Socket:
    """A socket through the whole application."""
    from console.asgi import application

    headers = [(b"host", b"127.0.0.1:8420"), (b"cookie", cookie.encode())]
    if origin is not None:
        headers.append((b"origin", origin.encode()))
    if authorization:
        headers.append((b"authorization", authorization.encode()))
    address, _, query = path.partition("?")
    scope = {
        "type": "websocket",
        "path": address,
        "query_string": query.encode(),
        "headers": headers,
        "subprotocols": [],
    }
    return Socket(application, scope)


def on_a_loop(scene: Callable[[], Awaitable[Any]], timeout_s: float = 60) -> Any:
    """Runs a scene on a loop of its own, and takes the loop's hub down after it."""

    async def main() -> Any:
        try:
            return await asyncio.wait_for(scene(), timeout_s)
        finally:
            await live_close()

    return asyncio.run(main())


def rows_of(frame: dict[str, Any]) -> list[int]:
    """The seqs of the rows in a frame."""
    return [int(seq) for seq in re.findall(r'<tr[^>]* data-seq="(\d+)"', frame["content"])]


async def frame_from(sock: Socket, timeout_s: float = 10) -> dict[str, Any]:
    """The next frame."""
    message = await sock.receive_output(timeout_s)
    assert message["type"] == "websocket.send", message
    frame: dict[str, Any] = json.loads(message["text"])
    return frame


async def close_code(sock: Socket, timeout_s: float = 10) -> int:
    """The code a socket is closed with; frames before it are passed over."""
    while True:
        message = await sock.receive_output(timeout_s)
        if message["type"] == "websocket.close":
            return int(message["code"])
