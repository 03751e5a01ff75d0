"""A browser sends a form as it stands on a page: each control by its rules (HTML, "Constructing the entry list"), without a script."""

from __future__ import annotations

from html.parser import HTMLParser

NO_VALUE = ("submit", "button", "reset", "image", "file")


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


class Sent(HTMLParser):
    """The fields of a piece of a page. ``fields``: what is sent of each name, ``presses``: the buttons, by name and value."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.fields: dict[str, list[str]] = {}
        self.presses: list[tuple[str, str]] = []
        self._area: str | None = None
        self._select: str | None = None
        self._begun = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A control that begins."""
        given = {name: value or "" for name, value in attrs}
        name = given.get("name", "")
        if tag == "option" and self._select is not None:
            self.handle_option(given)
        if tag == "button" and name and "disabled" not in given:
            self.presses.append((name, given.get("value", "")))
        if not name or "disabled" in given:
            return
        if tag == "input":
            self._input(name, given)
        elif tag == "textarea":
            self._area, self._begun = name, False
            self.fields[name] = [""]
        elif tag == "select":
            self._select = name

    def _input(self, name: str, given: dict[str, str]) -> None:
        kind = given.get("type", "text")
        if kind in NO_VALUE or (kind in ("checkbox", "radio") and "checked" not in given):
            return
        value = given.get("value", "")
        # A field of one line has no line ends.
        text = value if kind == "hidden" else value.replace("\r", "").replace("\n", "")
        self.fields.setdefault(name, []).append(text)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """The same."""
        self.handle_starttag(tag, attrs)

    def handle_data(self, data: str) -> None:
        """The text of an area, but for a line end right at its beginning."""
        if self._area is None:
            return
        text = _lines(data)
        if not self._begun and text.startswith("\n"):
            text = text[1:]
        self._begun = self._begun or bool(data)
        self.fields[self._area][0] += text

    def handle_endtag(self, tag: str) -> None:
        """A control that ends: an area's line ends are two characters when it is sent."""
        if tag == "textarea" and self._area is not None:
            self.fields[self._area] = [self.fields[self._area][0].replace("\n", "\r\n")]
            self._area = None
        elif tag == "select":
            self._select = None

    def handle_option(self, given: dict[str, str]) -> None:
        """An option of a list: the first, or the one that is selected."""
        assert self._select is not None
        if "selected" in given or self._select not in self.fields:
            self.fields[self._select] = [given.get("value", "")]
