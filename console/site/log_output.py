"""Writes the log of a process, as text or as lines of JSON (``FABRIC_LOG_FORMAT=json``), and masks secrets in it.

One object a line, so that no message can begin a line of its own (OWASP ASVS 16.2.x, 16.4.1).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from console.launch.variables.table import secret_values
from fabric.secrets.known_secrets import KNOWN, list_passwords, list_variable_secrets, list_webhook_secrets

_ADDRESSES = ("DATABASE_URL", "CELERY_BROKER_URL", "CHANNEL_URL")


def learn_secrets(settings: Mapping[str, str], tool_variables: Mapping[str, str]) -> None:
    """Register secrets.

    ``settings``: further ones by name, such as a generated key. ``tool_variables``: those of tools.
    """
    KNOWN.learn("settings", [*_values(secret_values()), *settings.values()])
    KNOWN.add(
        "variables of tools", [part for value in tool_variables.values() for part in list_variable_secrets(value)]
    )


def quiet_log() -> None:
    """Mask known secrets in every log record and its traceback, for all handlers."""
    before = logging.getLogRecordFactory()
    if getattr(before, "masks", False):
        return

    def make_record(*given: object, **more: object) -> logging.LogRecord:
        record = before(*given, **more)
        _mask(record)
        return record

    make_record.masks = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(make_record)


def _mask(record: logging.LogRecord) -> None:
    try:
        said = record.getMessage()
    except Exception:  # noqa: BLE001 - Arguments that do not fit are told by the handler, as ever.
        return
    masked = KNOWN.mask_text(said)
    if masked != said:
        record.msg, record.args = masked, ()
    if record.exc_info and record.exc_info[0] is not None:
        # Formatters use the text that is there already.
        record.exc_text = KNOWN.mask_text(_plain.formatException(record.exc_info))


def _values(secrets: Mapping[str, str]) -> Iterator[str]:
    for name, text in secrets.items():
        if name in _ADDRESSES:
            yield from list_passwords(text)
        elif name in ("FABRIC_NOTIFY_WEBHOOKS", "FABRIC_NOTIFY_SLACK", "FABRIC_NOTIFY_TEAMS"):
            yield from (part for address in text.split(",") for part in list_webhook_secrets(address.strip()))
        elif name == "FABRIC_KEY_RING":
            yield from text.replace(",", " ").lower().split()
        elif name == "FABRIC_AUDIT_KEY":
            yield from (text, text.lower())
        else:
            yield from (text, text.removeprefix("whsec_"))


_plain = logging.Formatter()

QUIET = ("httpx2", "httpcore2", "httpx", "httpcore", "urllib3")
"""Loggers of libraries that write addresses with queries at INFO. Their level is WARNING."""


class JsonLines(logging.Formatter):
    """Formats a record as a JSON object: at (RFC 3339, UTC), level, logger, message, process, and error with
    traceback.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        at = datetime.fromtimestamp(record.created, UTC)
        said: dict[str, object] = {
            "at": at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
        }
        if record.exc_info:
            # The text that is there already has no known secret in it (``console.site.log_output``).
            said["error"] = record.exc_text or self.formatException(record.exc_info)
        return json.dumps(said, ensure_ascii=False, default=str)
