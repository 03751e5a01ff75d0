"""Ends a tool call without a result: by an error that the model may correct, or by the call's failure."""

from __future__ import annotations

from fabric.core.texts.forms import InputRequest
from fabric.core.texts.text import clean_text
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause


class ToolError(Exception):
    """The tool's own error, which the model reads. The message is one sentence: the fault and the remedy.

    ``outcome``: shows if the call was done all the same. ``code``: the tool's own name for it, an error code or an
    exit code. Errors with one code are one failure, whatever their words. ``requested``: input that the tool's server
    wants from a person before the call is done.
    """

    requested: InputRequest | None = None

    def __init__(self, message: str, *, outcome: Outcome = Outcome.REJECTED, code: str | int = "") -> None:
        super().__init__(message)
        self.outcome, self.code = outcome, read_code(code)


class InputAsked(ToolError):
    """The tool's server asks a person before the call is done: the call goes out once more with the answer.

    ``outcome``: unknown where the server answered the question's end with a result and not with an error.
    """

    def __init__(self, request: InputRequest, outcome: Outcome = Outcome.REJECTED) -> None:
        who = (
            f"MCP server {request.server!r} asks a person in the middle of the call"
            if request.server
            else "a person is asked"
        )
        sentence = f"{who}, and no person is asked here"
        super().__init__(sentence, outcome=outcome)
        self.requested = request


CODE_CHARS = 63


def read_code(given: object) -> str:
    """Return an error code as it is stored: text or a whole number, cut to 63 characters. Empty: it is
    anything else.
    """
    if isinstance(given, bool) or not isinstance(given, str | int):
        return ""
    return clean_text(str(given)[:CODE_CHARS])[0].strip()


class CallBroken(Exception):
    """A failure that the model cannot correct, with a cause that the engine can treat."""

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


RETRY_AFTER_MAX_S = 86_400.0


class RetryRequested(CallBroken):
    """Raised by a registered function that wants another call: it is retried while attempts remain (S1).

    The message is one sentence: the cause of the wait. ``after_s``: seconds before a retry is of use, a day at most.
    It states that nothing was done.
    """

    def __init__(self, message: str, after_s: float | None = None) -> None:
        given = isinstance(after_s, int | float) and not isinstance(after_s, bool) and 0 <= after_s <= RETRY_AFTER_MAX_S
        super().__init__(
            Cause.RETRY_ASKED,
            message,
            retry_after_s=float(after_s) if given and after_s is not None else None,
            outcome=Outcome.REJECTED,
        )
