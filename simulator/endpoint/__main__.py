"""``python -m simulator.endpoint --scenario rate_limit --port 8000``: the same as ``manage.py simulate_endpoint``, without the installation."""

from __future__ import annotations

import sys
from argparse import ArgumentParser

from simulator.endpoint import serving


def main(arguments: list[str]) -> int:
    """Exit codes as ``serving.run`` has them."""
    parser = ArgumentParser(prog="python -m simulator.endpoint", description=serving.HELP)
    serving.add_arguments(parser)
    return serving.run(vars(parser.parse_args(arguments)), _say, _complain)


def _say(line: str) -> None:
    print(line, flush=True)


def _complain(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
