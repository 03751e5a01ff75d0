"""``python -m simulator.endpoint --fault rate_limit`` serves as ``manage.py dev endpoint`` does,
without Django.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser

from simulator.endpoint import terminal as serving


def main(arguments: list[str]) -> int:
    """Serve from a terminal. Returns the exit codes of ``terminal.run``."""
    parser = ArgumentParser(prog="python -m simulator.endpoint", description=serving.HELP)
    serving.add_arguments(parser)
    return serving.run(vars(parser.parse_args(arguments)), _say, _complain)


def _say(line: str) -> None:
    print(line, flush=True)


def _complain(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
