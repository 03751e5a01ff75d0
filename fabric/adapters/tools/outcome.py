"""How a tool ends that has no result: with an error the model may mend, or with a failure of the call itself."""

from __future__ import annotations

from fabric.core.saga import Outcome
from fabric.core.taxonomy import Cause


class ToolError(Exception):
    """The tool's own error, told to the model. The message is one sentence: what is wrong, what to do. ``outcome``: whether it was done all the same."""

    def __init__(self, message: str, *, outcome: Outcome = Outcome.REJECTED) -> None:
        super().__init__(message)
        self.outcome = outcome


class CallBroken(Exception):
    """What the model cannot mend: the call failed, for a cause that the engine knows how to treat."""

    def __init__(
        self,
        cause: Cause,
        message: str,
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
        raw: str = "",
        outcome: Outcome = Outcome.UNKNOWN,
    ) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.cause, self.message, self.status, self.retry_after_s, self.raw = cause, message, status, retry_after_s, raw
