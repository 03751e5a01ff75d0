"""What this process knows to be secret from its settings, and that no line of its log has it."""

import logging
from collections.abc import Iterator, Mapping

from console.variables import secret_values
from fabric.adapters.known_secrets import KNOWN, of_variable, of_webhook, password_of

_ADDRESSES = ("DATABASE_URL", "CELERY_BROKER_URL", "CHANNEL_URL")


def learn(settings: Mapping[str, str], tool_variables: Mapping[str, str]) -> None:
    """Make known what must not be told. ``settings``: further secrets by name, such as a generated key; ``tool_variables``: those of tools."""
    KNOWN.learn("settings", [*_values(secret_values()), *settings.values()])
    KNOWN.add("variables of tools", [part for value in tool_variables.values() for part in of_variable(value)])


def quiet_log() -> None:
    """Mask known secrets in every record that is logged, whatever handler writes it, and in its traceback."""
    before = logging.getLogRecordFactory()
    if getattr(before, "masks", False):
        return

    def made(*given: object, **more: object) -> logging.LogRecord:
        record = before(*given, **more)
        _mask(record)
        return record

    made.masks = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(made)


def _mask(record: logging.LogRecord) -> None:
    try:
        said = record.getMessage()
    except Exception:  # noqa: BLE001 - Arguments that do not fit are told by the handler, as ever.
        return
    masked = KNOWN.masked(said)
    if masked != said:
        record.msg, record.args = masked, ()
    if record.exc_info and record.exc_info[0] is not None:
        # Formatters take what stands there already.
        record.exc_text = KNOWN.masked(_plain.formatException(record.exc_info))


def _values(secrets: Mapping[str, str]) -> Iterator[str]:
    for name, text in secrets.items():
        if name in _ADDRESSES:
            yield from password_of(text)
        elif name == "FABRIC_NOTIFY_WEBHOOKS":
            yield from (part for address in text.split(",") for part in of_webhook(address.strip()))
        elif name == "FABRIC_KEY_RING":
            yield from text.replace(",", " ").lower().split()
        elif name == "FABRIC_AUDIT_KEY":
            yield from (text, text.lower())
        else:
            yield from (text, text.removeprefix("whsec_"))


_plain = logging.Formatter()
