"""A message as services make it."""

from fabric.core.texts.notifications import Channel, Message, NotificationKind, Target

OPS = Target(channel=Channel.EMAIL, address="ops@example.org")
DATA = {
    "run_id": "0199-run",
    "fabric": "research-desk",
    "tier": "interactive",
    "stage": "fan_out",
    "cost_usd_micros": 12_345,
    "reason": "the provider says no – thrice",
    "failure_type": "provider",
    "review_id": "esc-1",
    "due_at": "2026-11-18T12:00:00.000000Z",
    "required_role": "owner",
    "item": "failure",
}
MESSAGE = Message(
    key="0123456789abcdef0123456789abcdef",
    at=1_795_000_000_000_042,
    told=NotificationKind.REVIEW,
    data=DATA,
    link="https://fabric.example.org/reviews/esc-1",
)
