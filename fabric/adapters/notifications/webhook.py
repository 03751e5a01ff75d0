"""Sends notifications by webhook, signed by the Standard Webhooks specification."""

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

from fabric.adapters.notifications.posting import DEADLINE_S, post_once
from fabric.core.texts.notifications import PAYLOAD_VERSION, Delivery, Message, Target, rfc3339

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
        body, timestamp = build_body(message), int(self.now())
        headers = {
            **message.trace_headers,
            "webhook-id": message.key,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(self.key, message.key, timestamp, body),
            "Idempotency-Key": message.key,
        }
        return asyncio.run(post_once(target, body, headers, now=self.now, deadline_s=self.deadline_s))
