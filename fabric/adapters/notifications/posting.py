"""Posts one notification to a web address: bounded in time and size, no redirect followed, the address never named."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import httpx2

from fabric.core.texts.notifications import Delivery, NotificationHappening, Target, verdict
from fabric.http.transport import (
    EXCHANGE,
    Exchange,
    ExchangeRefused,
    Gate,
    VettedTransport,
    retry_after_s,
    transport_failure,
)
from fabric.secrets.known_secrets import KNOWN

DEADLINE_S = 10.0
"""Seconds for the whole exchange, from the name's look-up to the answer's last byte."""
BYTES_MAX = 64_000
"""Largest part of an answer that is read; none of it is kept."""


async def post_once(
    target: Target,
    body: bytes,
    headers: Mapping[str, str],
    *,
    now: Callable[[], float],
    gate: Gate | None = None,
    deadline_s: float = DEADLINE_S,
) -> Delivery:
    """Make one attempt, and judge it by the answer's status.

    ``gate``: vets the address; None: it is the operator's own. ``now``: seconds since the epoch, for the receiver's
    Retry-After.
    """
    seen, error = Exchange(), ""
    token = EXCHANGE.set(seen)
    transport = VettedTransport(gate, max_bytes=BYTES_MAX)
    client = httpx2.AsyncClient(transport=transport, timeout=None, follow_redirects=False, trust_env=False)
    sent = {"Content-Type": "application/json", "User-Agent": "fabric-flow", **headers}
    try:
        async with asyncio.timeout(deadline_s), client:
            await client.post(target.address, headers=sent, content=body)
    except TimeoutError:
        error = f"{target.public_address} did not answer within {deadline_s:g} seconds"
    except (ExchangeRefused, httpx2.HTTPError, httpx2.InvalidURL, OSError) as failure:
        error = transport_failure(failure, seen, target.public_address)[1]
    finally:
        EXCHANGE.reset(token)
    return _judge_answer(seen, KNOWN.mask_text(error), target.public_address, now())


def _judge_answer(seen: Exchange, error: str, where: str, now: float) -> Delivery:
    """Return the delivery by the answer's status; the rest of the answer is not needed."""
    if seen.status is None:
        return Delivery(NotificationHappening.FAILED, error)
    happened = verdict(seen.status)
    if happened is NotificationHappening.DELIVERED:
        return Delivery(happened)
    moved = ": it is moved, and redirects are not followed" if 300 <= seen.status < 400 else ""
    return Delivery(happened, f"{where} answered HTTP {seen.status}{moved}", retry_after_s(seen.headers, now))
