"""The parsers of the commands that people call."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import cache

from django.core.management import get_commands, load_command_class

from console.launch.groups import INTERNAL
from console.launch.old_names import RENAMED

OURS = ("console", "fabric", "simulator.drills")
CARRIERS = {*RENAMED, "drill_run"}
"""Commands that carry out a verb of another one, under names that the release before this one had."""


@cache
def parsers() -> Mapping[str, argparse.ArgumentParser]:
    """Return the parser of each command of ours, by its name."""
    found = sorted((name, str(app)) for name, app in get_commands().items() if str(app) in OURS)
    shown = [(name, app) for name, app in found if name not in CARRIERS and name not in INTERNAL]
    return {name: load_command_class(app, name).create_parser("manage.py", name) for name, app in shown}


def verbs_of(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """Return the parsers of its verbs."""
    several = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    return {verb: each for action in several for verb, each in action.choices.items()}
