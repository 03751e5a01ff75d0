"""Receivers of the audit stream: syslog and OTLP. Each takes records in order, or raises NotTaken."""

from __future__ import annotations


class NotTaken(Exception):
    """The receiver did not take the records, or this is unknown; one sentence. They are sent again."""

    def __init__(self, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        """Seconds that the receiver asked to wait; 0: none."""
