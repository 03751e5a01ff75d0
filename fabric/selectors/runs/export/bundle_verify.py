"""Verifies an exported run with nothing but Python: `python3 verify.py [--key PUBLIC_KEY_HEX]` beside the other files
of the bundle.

By the chain of hashes it checks that no event is missing, added or changed, and that every content is the one that was
hashed. The revision and the decisions are those that the events name. The end of the chain is the one in the signed
checkpoint. Only you can say whether the key in the checkpoint is the installation's own: compare it, or give it by
--key.
"""

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ZERO = b"\0" * 32
FORMAT = 1
DECISION = "review_"
"""Begins the kind of each event about a review; those stand in ``decisions.ndjson`` too."""

# -- Ed25519 (RFC 8032, 5.1.7), verifying alone: there is no secret in it that a clock could betray -------------------

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
ROOT = pow(2, (P - 1) // 4, P)
Point = tuple[int, int, int, int]


def _add(p: Point, q: Point) -> Point:
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def _times(s: int, p: Point) -> Point:
    q: Point = (0, 1, 1, 0)
    while s > 0:
        if s & 1:
            q = _add(q, p)
        p, s = _add(p, p), s >> 1
    return q


def _x(y: int, sign: int) -> "int | None":
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    if square == 0:
        return None if sign else 0
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    if (x * x - square) % P:
        return None
    return P - x if (x & 1) != sign else x


def _point(raw: bytes) -> "Point | None":
    y = int.from_bytes(raw, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    x = _x(y, sign)
    return None if x is None else (x, y, 1, x * y % P)


def is_signed(public: bytes, message: bytes, signature: bytes) -> bool:
    """Return True where ``signature`` (64 bytes) is that key's (32 bytes) over ``message``."""
    if len(public) != 32 or len(signature) != 64:
        return False
    a, r, s = _point(public), _point(signature[:32]), int.from_bytes(signature[32:], "little")
    if a is None or r is None or s >= L:
        return False
    base_y = 4 * pow(5, -1, P) % P
    base_x = _x(base_y, 0) or 0
    h = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % L
    left, right = _times(s, (base_x, base_y, 1, base_x * base_y % P)), _add(r, _times(h, a))
    return (left[0] * right[2] - right[0] * left[2]) % P == 0 and (left[1] * right[2] - right[1] * left[2]) % P == 0


# -- the bundle ------------------------------------------------------------------------------------------------------


def event_hash(prev: bytes, row: Mapping[str, Any], header: bytes, payload_hash: bytes) -> bytes:
    """H(prev | seq | kind | version | header | payload hash), the lengths of kind and header before them."""
    kind = row["kind"].encode()
    head = b"%b%d|%d|%b|%d|%d|" % (prev, row["seq"], len(kind), kind, row["version"], len(header))
    return hashlib.sha256(head + header + payload_hash).digest()


def _list_headers(header: bytes) -> "list[bytes]":
    """Return the JSON of each event in a row; each after the first has its kind and version before it."""
    first, *others = header.split(b"\n")
    return [first, *(one.split(b" ", 2)[-1] for one in others)]


class Bundle:
    """The files of one export, and what was found in them.

    A line of ``events.ndjson`` is a row of the journal: one event, and ``more`` of the same instant.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.chain: dict[str, Any] = json.loads((folder / "chain.json").read_bytes())
        self.run_id = self.chain["run_id"]
        self.events = 0
        self.erased = 0
        self.facts: dict[int, Any] = {}
        """Decisions by event number."""
        self.revision = ""

    def problems(self) -> Iterator[str]:
        """Everything that is wrong, a sentence each."""
        if self.chain["format"] != FORMAT:
            yield f"chain.json is of format {self.chain['format']}, this program knows {FORMAT}: use the verify.py it came with"
            return
        yield from self._events()
        yield from self._revision()
        yield from self._decisions()
        yield from self._checkpoint()

    def _events(self) -> Iterator[str]:
        prev, last = ZERO, 0
        with (self.folder / "events.ndjson").open("rb") as lines:
            for line in lines:
                row = json.loads(line)
                yield from self._event(row, prev, last)
                self.events += 1 + row["more"]
                prev, last = bytes.fromhex(row["hash"]), row["seq"] + row["more"]
        if (last, prev.hex()) != (self.chain["last_seq"], self.chain["head"]):
            yield f"events.ndjson ends at event {last}, chain.json says {self.chain['last_seq']}, or their hashes differ: its end was cut off or changed"

    def _event(self, row: Mapping[str, Any], prev: bytes, last: int) -> Iterator[str]:
        seq, header, payload_hash = row["seq"], row["header"].encode(), bytes.fromhex(row["payload_hash"])
        if row["run_id"] != self.run_id:
            yield f"event {seq} is of run {row['run_id']}, not of {self.run_id}"
        if seq != last + 1:
            yield f"event {last + 1} is missing: {seq} follows {last}"
        elif event_hash(prev, row, header, payload_hash).hex() != row["hash"]:
            yield f"event {seq} does not have the hash of what it says after the event before it: it, or that one, was changed"
        try:
            said, *others = (json.loads(one) for one in _list_headers(header))
        except ValueError:
            yield f"event {seq} has a header that cannot be read"
            return
        if len(others) != row["more"]:
            yield f"event {seq} has another number of events in its line than in its header"
        if any(one["e"][0] != row["at"] for one in (said, *others)):
            yield f"event {seq} has another instant in its line than in its header"
        if row["payload"] is None:
            self.erased += bool(payload_hash)
        elif hashlib.sha256(row["payload"].encode()).digest() != payload_hash:
            yield f"event {seq} has another content than the one that was hashed"
        if row["kind"].startswith(DECISION):
            self.facts[seq] = {"kind": row["kind"], "at": row["at"], "fact": said["d"]}
        if row["kind"] == "run_started":
            self.revision = said["d"]["revision"]

    def _revision(self) -> Iterator[str]:
        raw = (self.folder / "revision.json").read_bytes()
        if self.chain["revision_as_hashed"] and hashlib.sha256(raw).hexdigest()[:32] != self.revision and self.events:
            yield f"revision.json is not the revision {self.revision} that the run's first event names"

    def _decisions(self) -> Iterator[str]:
        told = {}
        for line in (self.folder / "decisions.ndjson").read_bytes().splitlines():
            row = json.loads(line)
            told[row.pop("seq")] = row
        for seq in sorted(told.keys() ^ self.facts.keys()):
            yield f"event {seq} is a decision in {'decisions.ndjson' if seq in told else 'events.ndjson'} alone"
        for seq in sorted(told.keys() & self.facts.keys()):
            if told[seq] != self.facts[seq]:
                yield f"decisions.ndjson says of event {seq} something else than the event"

    def _checkpoint(self) -> Iterator[str]:
        checkpoint = json.loads((self.folder / "checkpoint.json").read_bytes())
        raw = checkpoint["body"].encode()
        body = json.loads(raw)
        self.key, self.signed_at = body["key"], body["at"]
        covered = {run_id: (seq, head) for run_id, seq, head in body["runs"]}
        if self.events and covered.get(self.run_id) != (self.chain["last_seq"], self.chain["head"]):
            yield f"the checkpoint does not say that run {self.run_id} reached event {self.chain['last_seq']} with this hash"
        if not is_signed(bytes.fromhex(body["key"]), raw, bytes.fromhex(checkpoint["signature"])):
            yield "the checkpoint's signature is not over what it says"


def main(arguments: "list[str]") -> int:
    """Says what was found; 0: nothing is wrong."""
    key = arguments[arguments.index("--key") + 1].lower() if "--key" in arguments[:-1] else ""
    try:
        bundle = Bundle(Path(__file__).resolve().parent)
        problems = list(bundle.problems())
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        print(f"WRONG: a file of the bundle is missing or cannot be read: {type(error).__name__}: {error}")
        return 1
    if key and not problems and bundle.key != key:
        problems.append(f"the checkpoint is signed by key {bundle.key}, not by the one you gave")
    for problem in problems:
        print(f"WRONG: {problem}")
    if problems:
        return 1
    erased = f", the contents of {bundle.erased} of which were erased" if bundle.erased else ""
    print(
        f"Run {bundle.run_id}: {bundle.events} events{erased}. Chain, contents, revision, decisions and signature are whole."
    )
    if not bundle.chain["revision_as_hashed"]:
        print("The revision was published by another version of the program: its hash was not compared.")
    print(
        "The key is the one you gave."
        if key
        else f"Signed by key {bundle.key}: compare it with the installation's own."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
