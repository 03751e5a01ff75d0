"""The variable that caps what is spent with keys: how it is read, for the table of console/variables.py. Standard library only."""

from decimal import Decimal
from urllib.parse import urlsplit

from console.launch.errors import Refused
from console.variable_paths import shown


def key_caps(name: str, text: str) -> tuple[tuple[str, str, int], ...]:
    """Endpoint as ``https://host:port``, ``day`` or ``month``, and micro-dollars of each."""
    found = []
    for one in filter(None, map(str.strip, text.split(","))):
        url, _, cap = one.rpartition("=")
        usd, _, period = cap.partition("/")
        try:
            parts = urlsplit(url)
            port = parts.port or {"https": 443, "http": 80}[parts.scheme]
            amount = Decimal(usd) * 1_000_000
            if (
                not parts.hostname
                or parts.path.strip("/")
                or period not in ("day", "month")
                or not 0 <= amount <= 10**15
            ):
                raise ValueError
        except (ValueError, KeyError, ArithmeticError):
            raise Refused(
                f"{name} has {shown(one)}: write ENDPOINT=DOLLARS/day or /month, as in https://api.openai.com=20/day."
            ) from None
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        found.append((f"{parts.scheme}://{host}:{port}", period, int(amount)))
    if len({one[:2] for one in found}) < len(found):
        raise Refused(f"{name} names an endpoint twice for the same period: write each once.")
    return tuple(found)
