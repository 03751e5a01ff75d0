"""The commands in six groups, with a line each, as `help` shows them; and the meaning of exit codes."""

from collections.abc import Iterator, Mapping

from fabric.program.name import program

GROUPS: Mapping[str, Mapping[str, str]] = {
    "Start": {
        "up": "start everything on this machine",
        "doctor": "check this installation",
        "version": "show the version",
        "help": "explain a command: help run, help exit-codes",
        "completion": "print a script that completes words in bash, zsh or fish",
    },
    "Runs and reviews": {
        "run": "start, list, follow, explain and control runs",
        "review": "list, claim and decide reviews",
    },
    "Fabrics": {
        "fabric": "list, check, compare and publish fabrics",
        "graph": "describe the graph of a fabric, and check its rules",
        "memory": "show, write and erase what fabrics remember",
        "model": "list models, store their keys, test them",
    },
    "Protections": {
        "drill": "drill the decision table of a fabric; stop all drills",
        "scenario": "list, play and keep failure scenarios",
        "breaker": "list, open and reset circuit breakers",
        "budget": "list shared budgets, and set their caps",
        "policy": "show or set the policy of the workspace",
    },
    "People and programs": {
        "member": "list, invite and remove members, set their roles",
        "token": "make and revoke tokens of programs",
        "notification": "list messages by e-mail and webhook, send one again",
    },
    "Operation": {
        "admin": "verify, replay, rebuild; erase old contents",
        "audit": "list and export the audit stream, place holds",
        "backup": "write a backup",
        "restore": "put a backup into an empty installation",
        "rekey": "seal stored secrets with a new key",
        "revoke_access": "end all sessions, tokens and links",
        "bootstrap": "print a sign-in link for the owner",
        "prepare": "bring the database up to date",
        "dev": "play and measure: simulate, endpoint, booking",
        "test": "run the tests of a checkout",
        "django": "any command of Django: django migrate",
    },
}
INTERNAL = ("complete_words", "drill_batch")
"""Commands that only other processes of ours call."""
NAMES = tuple(name for group in GROUPS.values() for name in group)
EXIT_CODES: Mapping[int, str] = {
    0: "done; a run completed",
    1: "another end: a run did not complete, a check found something, or the program could not start",
    2: "bad input: a wrong command, option or value, or a refusal",
    3: "a run waits for a person, or is paused",
    130: "ended by Ctrl-C; a run goes on where an engine runs",
    141: "the reader of the output has gone, as in `run list | head`",
}
"""Meaning of each exit code of a command."""
TOPIC = "exit-codes"


def list_commands() -> str:
    """Return the page of `help`."""
    return "\n".join(_page())


def list_exit_codes() -> str:
    """Return the page of `help exit-codes`."""
    return "\n".join(f"{code:>4}  {says}" for code, says in EXIT_CODES.items())


def _page() -> Iterator[str]:
    yield f"Usage: {program()} COMMAND [VERB] [ARGUMENTS]"
    for title, commands in GROUPS.items():
        yield f"\n{title}"
        yield from (f"  {name:<14}{says}" for name, says in commands.items())
    yield f"\n`{program()} help COMMAND` explains one, `{program()} help {TOPIC}` its exit code."
