"""Sends notifications by webhook: signed by the Standard Webhooks specification, bounded in time and size, no
redirect followed.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

import httpx2

from fabric.core.texts.notifications import (
    PAYLOAD_VERSION,
    Delivery,
    Message,
    NotificationHappening,
    Target,
    rfc3339,
    verdict,
)
from fabric.http.transport import EXCHANGE, Exchange, ExchangeRefused, VettedTransport, retry_after_s, transport_failure
from fabric.secrets.known_secrets import KNOWN

DEADLINE_S = 10.0
"""Seconds for the whole exchange, from the name's look-up to the answer's last byte."""
BYTES_MAX = 64_000
"""Largest part of an answer that is read; none of it is kept."""
SECRET_PREFIX = "whsec_"  # noqa: S105 - How a secret begins.


def secret_bytes(secret: str) -> bytes:
    """Return the key in a configured secret: ``whsec_`` and base64. Raises ValueError, one sentence, for anything
    else.
    """
    try:
        if not secret.startswith(SECRET_PREFIX):
            raise ValueError
        return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (ValueError, binascii.Error):
        raise ValueError("the webhooks' secret is not whsec_ and base64") from None


def signature(key: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """Return ``v1,`` and the HMAC-SHA256 over id, timestamp and body in base64. Source: Standard Webhooks,
    "Signature scheme".
    """
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, sha256).digest()).decode()


def build_body(message: Message) -> bytes:
    """Return type, timestamp and data as bytes, equal at every attempt. Source: Standard Webhooks, "Payload
    structure".
    """
    said = {
        "type": f"fabric_flow.{message.told}",
        "timestamp": rfc3339(message.at),
        "data": {"id": message.key, "version": PAYLOAD_VERSION, **message.data, "link": message.link},
    }
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class Webhooks:
    """Sends by webhook. The addresses are the operator's own: they may be private."""

    key: bytes = field(repr=False)
    deadline_s: float = DEADLINE_S
    now: Callable[[], float] = time.time
    """Seconds since the epoch: receivers refuse signatures of another time."""

    def send(self, target: Target, message: Message) -> Delivery:
        """Make one attempt."""
        return asyncio.run(self._send(target, message))

    async def _send(self, target: Target, message: Message) -> Delivery:
        seen, body, timestamp = Exchange(), build_body(message), int(self.now())
        token = EXCHANGE.set(seen)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "fabric-flow",
            "webhook-id": message.key,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(self.key, message.key, timestamp, body),
            "Idempotency-Key": message.key,
        }
        transport = VettedTransport(None, max_bytes=BYTES_MAX)
        client = httpx2.AsyncClient(transport=transport, timeout=None, follow_redirects=False, trust_env=False)
        error = ""
        try:
            async with asyncio.timeout(self.deadline_s), client:
                await client.post(target.address, headers=headers, content=body)
        except TimeoutError:
            error = f"{target.public_address} did not answer within {self.deadline_s:g} seconds"
        except (ExchangeRefused, httpx2.HTTPError, httpx2.InvalidURL, OSError) as failure:
            error = transport_failure(failure, seen, target.public_address)[1]
        finally:
            EXCHANGE.reset(token)
        return self._judge_answer(seen, KNOWN.mask_text(error), target.public_address)

    def _judge_answer(self, seen: Exchange, error: str, where: str) -> Delivery:
        """Return the delivery by the answer's status; the rest of the answer is not needed."""
        if seen.status is None:
            return Delivery(NotificationHappening.FAILED, error)
        happened = verdict(seen.status)
        if happened is NotificationHappening.DELIVERED:
            return Delivery(happened)
        moved = ": it is moved, and redirects are not followed" if 300 <= seen.status < 400 else ""
        asked = retry_after_s(seen.headers, self.now())
        return Delivery(happened, f"{where} answered HTTP {seen.status}{moved}", asked)
