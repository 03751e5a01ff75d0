"""``python -m simulator.endpoint --port 8000 --script cooperative``: the scripted endpoint in a terminal, one line a request."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from simulator.endpoint.scripts import NAMED
from simulator.endpoint.server import ScriptedEndpoint


def main(arguments: list[str]) -> int:
    """Serves until interrupted. 2: the port is taken."""
    parser = argparse.ArgumentParser(prog="python -m simulator.endpoint", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0, the default: any free port")
    parser.add_argument(
        "--script", choices=sorted(NAMED), default="cooperative", metavar="NAME", help=", ".join(sorted(NAMED))
    )
    parser.add_argument("--ledger", type=Path, help="append each request to this file as a line of JSON")
    chosen = parser.parse_args(arguments)
    try:
        with ScriptedEndpoint(NAMED[chosen.script], port=chosen.port, ledger=chosen.ledger) as endpoint:
            print(
                f"FABRIC_MODEL_URL={endpoint.url}  FABRIC_MODEL=scripted  (script {chosen.script}; Ctrl-C ends it)",
                flush=True,
            )
            _print_requests(endpoint)
    except OSError as error:
        print(f"port {chosen.port} cannot be used: {error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0
    return 0


def _print_requests(endpoint: ScriptedEndpoint) -> None:
    shown = 0
    while True:
        try:
            requests = endpoint.wait(shown + 1, timeout_s=60.0)
        except TimeoutError:
            continue
        for one in requests[shown:]:
            print(
                f"{one.number:4} {one.method} {one.path} agent={one.agent or '-'} key={'yes' if one.key else 'no'}",
                flush=True,
            )
        shown = len(requests)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
