"""A server that writes bytes of its own choice, to its own end: what no server that keeps to HTTP can do."""

import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

CLOSE_S = 10.0


@contextmanager
def raw_server(
    pieces: Sequence[bytes], *, reset: bool = False, every_s: float = 0.0
) -> Iterator[tuple[str, list[bytes]]]:
    """``host:port`` and the heads of the requests that came. Each gets the pieces and then the connection's end, an abrupt one with ``reset``."""
    listening, heads = socket.create_server(("127.0.0.1", 0)), []

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                try:
                    heads.append(_request(connection))
                    for piece in pieces:
                        connection.sendall(piece)
                        time.sleep(every_s)
                    if reset:
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                except OSError:
                    pass  # The client left.

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}", heads
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(CLOSE_S)


def _request(connection: socket.socket) -> bytes:
    """One request, its body read as well: what is left unread would make of the end a reset."""
    read = b""
    while b"\r\n\r\n" not in read:
        read += connection.recv(65_536)
    head, _, body = read.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        body += connection.recv(65_536)
    return head
