"""The result of reading a file, and the refusal of one."""

from __future__ import annotations

from dataclasses import dataclass

FILE_BYTES_MAX = 10_000_000
"""Bytes of a PDF, a Word document or an Excel workbook."""
TEXT_BYTES_MAX = 1_000_000
"""Largest text of a file, in bytes of UTF-8, and largest file that is text."""
SHORTER = "attach the part that matters"


class UnreadableFile(Exception):
    """A refused file. The message continues the file's name: ``is a PNG image; ...``."""

    def __init__(self, message: str, *, too_large: bool = False) -> None:
        super().__init__(message)
        self.too_large = too_large


@dataclass(frozen=True, slots=True)
class FileReading:
    """The reading of a file."""

    kind: str
    """Name of the kind for people: ``PDF``, ``Word document``."""
    text: str
    notes: tuple[str, ...] = ()
    """Notes for the person who attached it, a clause each: ``pages 2 and 5 have no text``."""


class WrittenText:
    """A text under construction, within the bound of bytes."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._bytes = 0

    def add(self, part: str) -> None:
        """Append a line or more. Raises UnreadableFile as soon as it is too much."""
        self._bytes += len(part.encode("utf-8", "replace")) + 1
        if self._bytes > TEXT_BYTES_MAX:
            raise UnreadableFile(
                f"has more than {TEXT_BYTES_MAX:,} bytes of text, the most that is taken; {SHORTER}", too_large=True
            )
        self._parts.append(part)

    def text(self) -> str:
        """Return all of it, with a line break between two parts."""
        return "\n".join(self._parts)


def list_numbers(numbers: list[int], most: int = 8) -> str:
    """Return ``3``, ``1 and 3``, ``1, 2, 3 and 40 more``."""
    if len(numbers) > most:
        return f"{', '.join(map(str, numbers[:most]))} and {len(numbers) - most} more"
    return " and ".join([*([", ".join(map(str, numbers[:-1]))] if numbers[1:] else []), str(numbers[-1])])
