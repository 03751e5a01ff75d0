"""The log as lines of JSON (``FABRIC_LOG_FORMAT=json``): one object a line, so that no message can begin a line of its own (OWASP ASVS 16.2.x, 16.4.1)."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

FORMATS = ("text", "json")
QUIET = ("httpx2", "httpcore2", "httpx", "httpcore", "urllib3")
"""Loggers of libraries that say addresses, with what stands in their queries, at INFO: they are heard from WARNING on."""


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object: at (RFC 3339, UTC), level, logger, message; process; error with its traceback where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        at = datetime.fromtimestamp(record.created, UTC)
        said: dict[str, object] = {
            "at": at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
        }
        if record.exc_info:
            # What stands there already has no known secret in it (``console.known``).
            said["error"] = record.exc_text or self.formatException(record.exc_info)
        return json.dumps(said, ensure_ascii=False, default=str)
