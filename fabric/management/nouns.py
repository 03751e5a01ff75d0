"""A noun carries verbs that are commands of their own: `admin verify` is the command `verify_audit`."""

from __future__ import annotations

from argparse import _SubParsersAction
from collections.abc import Mapping
from typing import Any

from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand, CommandParser

Verb = tuple[str, str]
"""Name of the command that carries a verb out, and the verb's line of help."""
CARRIER = "carrier"
"""The option in which a verb's parser names the command that carries it out."""


def add_verbs(actions: _SubParsersAction[CommandParser], verbs: Mapping[str, Verb]) -> None:
    """Add verbs to a noun, each with its command and its line of help. A command that is not installed is left out."""
    installed = get_commands()
    for verb, (name, says) in verbs.items():
        if name not in installed:
            continue
        command = load_command_class(installed[name], name)
        parser = actions.add_parser(verb, help=says, description=command.help)
        command.add_arguments(parser)
        parser.set_defaults(**{CARRIER: command})


def carry_out(noun: BaseCommand, options: dict[str, Any]) -> bool:
    """Carry out the verb by its own command, on the noun's streams. Returns False for a verb of the noun itself."""
    command = options.pop(CARRIER, None)
    if command is None:
        return False
    command.stdout, command.stderr = noun.stdout, noun.stderr
    command.handle(**options)
    return True
