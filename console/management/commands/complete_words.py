"""`manage.py complete_words PROGRAM WORD…`: the words that may stand in place of the last one, for a shell."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.core.management import get_commands, load_command_class
from django.core.management.base import CommandParser

from fabric.core.people.actor import Actor
from fabric.core.values.taxonomy import Tier
from fabric.management.base import OK, FabricCommand
from fabric.management.output.run_list import RunsAsked, find_runs
from fabric.selectors.fabrics.lookup import fabrics_list
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.whole_ids import short_id
from fabric.services.actors import owner_actor

RECENT = 20

PLACES: Mapping[str, Callable[[Actor], Iterable[str]]] = {
    "FABRIC": lambda actor: (one.name for one in fabrics_list(actor)),
    "NAME": lambda actor: (one.name for one in fabrics_list(actor)),
    "FILE|NAME": lambda actor: (one.name for one in fabrics_list(actor)),
    "RUN": lambda actor: (short_id(one.id) for one in find_runs(actor, RunsAsked("", "", RECENT, "")).rows),
    "REVIEW": lambda actor: (one.id for one in list_open_reviews(actor, limit=RECENT)),
    "TIER": lambda actor: Tier,
}
"""Words that may stand in a place of a command line, by the place's name in the help."""
OF_FABRICS = ("fabric",)
"""Commands whose ``NAME`` is a fabric."""


class Command(FabricCommand):
    """Prints the words, a line each."""

    help = "Complete the last word of a command line. Shells call it: see `completion`."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the words as typed."""
        parser.add_argument("program", help="the program's name")
        parser.add_argument("words", nargs=argparse.REMAINDER, help="the words behind it")

    def act(self, options: dict[str, Any]) -> int:
        """Print what the last word may become."""
        *typed, last = options["words"] or [""]
        for word in sorted(set(_find_words(typed, last))):
            if word.startswith(last):
                self.stdout.write(word)
        return OK


def _find_words(typed: list[str], last: str) -> Iterable[str]:
    name, *rest = typed or [""]
    commands = get_commands()
    if name not in commands:
        return ()
    parser: argparse.ArgumentParser = load_command_class(commands[name], name).create_parser("", name)
    places, before = _split(parser, rest)
    while places and (verbs := _verbs(parser)):
        if places[0] not in verbs:
            return ()
        parser, places = verbs[places[0]], places[1:]
    if last.startswith("-"):
        return [word for one in parser._actions if one.help != argparse.SUPPRESS for word in one.option_strings]
    if (valued := _option(parser, before)) is not None:
        return _offer(name, valued)
    if verbs := _verbs(parser):
        return verbs
    waiting = [one for one in parser._actions if not one.option_strings]
    if not waiting:
        return ()
    at = min(len(places), len(waiting) - 1)
    return _offer(name, waiting[at]) if at == len(places) or waiting[at].nargs in ("+", "*") else ()


def _split(parser: argparse.ArgumentParser, words: list[str]) -> tuple[list[str], str]:
    """Return the words that stand in places of their own, and the word before the unfinished one."""
    places, skip, known = [], False, parser
    for word in words:
        if skip:
            skip = False
        elif word.startswith("-"):
            skip = _option(known, word) is not None
        else:
            places.append(word)
            known = _verbs(known).get(word, known)
    return places, words[-1] if words else ""


def _verbs(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    several = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    return {verb: each for action in several for verb, each in action.choices.items()}


def _option(parser: argparse.ArgumentParser, word: str) -> argparse.Action | None:
    """Return the option that this word is, if a value follows it."""
    return next((one for one in parser._actions if word in one.option_strings and one.nargs != 0), None)


def _offer(name: str, action: argparse.Action) -> Iterable[str]:
    if action.choices:
        return map(str, action.choices)
    place = str(action.metavar or "")
    if place == "NAME" and name not in OF_FABRICS:
        return ()
    return PLACES[place](owner_actor()) if place in PLACES else ()
