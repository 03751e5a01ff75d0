"""Commands as tests call them: in this process, with what they say and how they end."""

import io
import json
from dataclasses import dataclass
from typing import Any

from django.core.management import call_command

from fabric.models import Review


class Terminal(io.StringIO):
    """A standard error that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@dataclass(frozen=True)
class Said:
    """A command's output, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def last(self) -> Any:
        """The last line of standard output, as JSON."""
        return json.loads(self.out.strip().splitlines()[-1])


def command(*words: str, terminal: bool = False) -> Said:
    """Runs a command in this process."""
    out, err = io.StringIO(), Terminal() if terminal else io.StringIO()
    try:
        call_command(*words, stdout=out, stderr=err)
        code = 0
    except SystemExit as ended:
        code = int(ended.code or 0)
    return Said(code, out.getvalue(), err.getvalue())


def shown(item: str) -> tuple[str, str]:
    """The words that name what a review asks about now."""
    return "--digest", Review.objects.get(id=item).digest
