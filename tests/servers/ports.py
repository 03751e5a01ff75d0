"""Ports for the servers that tests start."""

import random
import socket

BELOW_OUTGOING = range(20_000, 32_000)
"""Ports that Linux gives to no outgoing connection: none can take one between its choice and the server's start."""


def free_port() -> int:
    """Return a loopback port that nothing listens at. Raises RuntimeError when a hundred were tried in vain."""
    for port in random.SystemRandom().sample(BELOW_OUTGOING, 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("of a hundred ports none was free: see what listens on this machine")
