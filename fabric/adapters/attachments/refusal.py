"""The result of reading a file, and the refusal of one."""

from __future__ import annotations

from dataclasses import dataclass

FILE_BYTES_MAX = 10_000_000
"""Bytes of a PDF, a Word document or an Excel workbook."""
TEXT_BYTES_MAX = 1_000_000
"""Bytes in UTF-8 of the text that a file comes to, and of a file that is text."""
SHORTER = "attach the part that matters"


class Unreadable(Exception):
    """A file that is not taken. The message goes on after the file's name: ``is a PNG image; ...``."""

    def __init__(self, message: str, *, too_large: bool = False) -> None:
        super().__init__(message)
        self.too_large = too_large


@dataclass(frozen=True, slots=True)
class Reading:
    """The reading of a file."""

    kind: str
    """Its name for people: ``PDF``, ``Word document``."""
    text: str
    notes: tuple[str, ...] = ()
    """Notes for the person who attached it, a clause each: ``pages 2 and 5 have no text``."""


class Written:
    """A text that is being put together, within the bound of bytes."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._bytes = 0

    def add(self, part: str) -> None:
        """Appends a line or more. Unreadable as soon as it is too much."""
        self._bytes += len(part.encode("utf-8", "replace")) + 1
        if self._bytes > TEXT_BYTES_MAX:
            raise Unreadable(
                f"has more than {TEXT_BYTES_MAX:,} bytes of text, the most that is taken; {SHORTER}", too_large=True
            )
        self._parts.append(part)

    def text(self) -> str:
        """All of it, a line break between two parts."""
        return "\n".join(self._parts)


def listed(numbers: list[int], most: int = 8) -> str:
    """``3``, ``1 and 3``, ``1, 2, 3 and 40 more``."""
    if len(numbers) > most:
        return f"{', '.join(map(str, numbers[:most]))} and {len(numbers) - most} more"
    return " and ".join([*([", ".join(map(str, numbers[:-1]))] if numbers[1:] else []), str(numbers[-1])])
