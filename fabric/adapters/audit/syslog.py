"""Sends the audit stream by syslog: RFC 5424 over UDP (RFC 5426), TCP or TLS (RFC 5425). Messages are counted in octets
(RFC 6587 3.4.1).

Syslog has no answer. Over TCP and TLS the records count as taken when the receiver has closed its end after ours: it
has read all of them. Over UDP receipt is unknown; sent records count as taken.
"""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from urllib.parse import urlsplit

from fabric.adapters.audit import NotTaken
from fabric.core.values.units import JSON

DEADLINE_S = 10.0
"""Seconds for connecting, and for each answer of the network."""
FACILITY = 13
"""Log audit (RFC 5424 6.2.1, table 1)."""
INFO, WARNING = 6, 4
"""Severities (table 2): of done acts, and of refused or failed ones."""
APP, SD_ID = "fabric-flow", "fabric@32473"
"""32473 is the enterprise number for examples (RFC 5612); an operator's rules go by the parameters."""
PORTS = {"udp": 514, "tcp": 601, "tls": 6514}
OCTETS_MAX = 8_192
"""Largest message; a longer one loses the end of its free text, never of its parameters."""
PARAM_CHARS_MAX = 256
PARAMS = (
    "id",
    "workspace",
    "seq",
    "hash",
    "at",
    "actor",
    "via",
    "came_by",
    "address",
    "request_id",
    "act",
    "outcome",
    "subject",
)


def message(record: Mapping[str, JSON], host: str) -> bytes:
    """Return a record as one message. ``record``: from ``selectors.audit.export.record_json``, with its workspace.
    Source: RFC 5424 section 6.
    """
    severity = INFO if record["outcome"] == "done" else WARNING
    said = "".join(f' {name}="{_param(record[name])}"' for name in PARAMS if record.get(name) not in (None, ""))
    head = f"<{FACILITY * 8 + severity}>1 {record['at']} {_ascii(host, 255)} {APP} - {_ascii(record['act'], 32)} [{SD_ID}{said}] "
    more = json.dumps(record["more"], ensure_ascii=False, sort_keys=True) if record["more"] else ""
    text = f"{record['sentence']} {record['subject']} {more}".strip().replace("\n", " ").replace("\r", " ")
    raw = head.encode() + b"\xef\xbb\xbf" + text.encode("utf-8", "replace")
    return raw if len(raw) <= OCTETS_MAX else raw[:OCTETS_MAX].decode("utf-8", "ignore").encode()


class Syslog:
    """One receiver. ``address``: ``udp://HOST:PORT``, ``tcp://HOST:PORT`` or ``tls://HOST:PORT``; TLS goes by the
    system's certificates.
    """

    def __init__(self, address: str, *, deadline_s: float = DEADLINE_S) -> None:
        parts = urlsplit(address)
        self._kind, self._host = parts.scheme, parts.hostname or ""
        self._port = parts.port or PORTS[parts.scheme]
        self._deadline_s = deadline_s

    def send(self, records: Sequence[Mapping[str, JSON]]) -> str:
        """Send records in order; return a warning about the delivery, mostly "". Raises NotTaken if it fails."""
        messages = [message(one, socket.gethostname()) for one in records]
        try:
            if self._kind == "udp":
                self._datagrams(messages)
            else:
                self._stream(b"".join(b"%d %b" % (len(one), one) for one in messages))
        except TimeoutError as error:
            message_ = f"the syslog receiver {self._host}:{self._port} did not answer within {self._deadline_s:g} s"
            raise NotTaken(message_) from error
        except OSError as error:
            raise NotTaken(
                f"the syslog receiver {self._host}:{self._port} cannot be reached: {error.strerror or error}"
            ) from error
        return ""

    def _datagrams(self, messages: Sequence[bytes]) -> None:
        family, _, _, _, where = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_DGRAM)[0]
        with closing(socket.socket(family, socket.SOCK_DGRAM)) as sock:
            sock.settimeout(self._deadline_s)
            for one in messages:
                sock.sendto(one, where)

    def _stream(self, raw: bytes) -> None:
        with closing(socket.create_connection((self._host, self._port), self._deadline_s)) as plain:
            if self._kind != "tls":
                plain.sendall(raw)
                plain.shutdown(socket.SHUT_WR)
                self._until_closed(plain)
                return
            with closing(ssl.create_default_context().wrap_socket(plain, server_hostname=self._host)) as sock:
                sock.sendall(raw)
                try:
                    sock.unwrap()
                except ssl.SSLEOFError:
                    return  # It closed without saying so in TLS: after reading, since a reset is another error.

    def _until_closed(self, sock: socket.socket) -> None:
        """Wait for the receiver to close; one that goes on sending counts as silent."""
        until = time.monotonic() + self._deadline_s
        while sock.recv(4_096):
            if time.monotonic() > until:
                raise TimeoutError


def _ascii(text: str, most: int) -> str:
    kept = "".join(sign for sign in text if "!" <= sign <= "~")[:most]
    return kept or "-"


def _param(value: JSON) -> str:
    """Return a value as a parameter (RFC 5424 6.3.3): three signs are escaped, and a line stays one."""
    text = " ".join(str(value)[:PARAM_CHARS_MAX].split())
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("]", "\\]").encode("utf-8", "replace").decode()
