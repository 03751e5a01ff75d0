"""Web pages where data is expected: a page to sign in, a proxy's, an error in markup."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape

PAGE_TYPES = ("text/html", "application/xhtml+xml")
LOOKED_AT_CHARS = 20_000
TITLE_CHARS = 100
SHORT_CHARS = 600
"""A page with no more characters of words asks to sign in, where it speaks of that."""
_frame = re.compile(r"<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_before = (("<!--", "-->"), ("<?", "?>"))
"""The beginnings and ends of parts that may stand before a page."""
_unseen = re.compile(r"<(script|style|noscript)\b.*?(?:</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_tag = re.compile(r"<[^<>]*>")
_title = re.compile(r"<title[^<>]*>([^<]*)", re.IGNORECASE)
_heading = re.compile(r"<h[1-3][^<>]*>([^<]*)", re.IGNORECASE)
_password = re.compile(
    r"<input\b[^<>]*\btype\s*=\s*[\"']?password|name\s*=\s*[\"']?saml(?:request|response)", re.IGNORECASE
)
_words = re.compile(
    r"\b(?:log|sign)[\s-]*(?:in|on)\b|\blogin\b|\bauthenticat|\bsession (?:has )?(?:expired|timed out)|\banmeld|\bconnexion\b|\bse connecter\b|\biniciar sesi|\baccedi\b"
    r"|\binloggen\b|войти|вход в|登录|登入|ログイン|로그인",
    re.IGNORECASE,
)
_path = re.compile(
    r"(?:^|[/._-])(?:log|sign)[._-]?(?:in|on)\b|/(?:sso|saml2?|oauth2?|auth|authorize|cas|adfs)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its title or first heading, and whether it asks to sign in."""

    title: str
    signs_in: bool

    def __str__(self) -> str:
        """``a page to sign in ("Title")``."""
        noun = "a page to sign in" if self.signs_in else "a web page"
        return f'{noun} ("{self.title}")' if self.title else noun


def page_of(text: str) -> Page | None:
    """The page that a text is; None: it is none. A piece of markup without the frame of a page is none."""
    text = text[:LOOKED_AT_CHARS]
    if not _frame.match(text, _beginning(text)):
        return None
    found = _title.search(text) or _heading.search(text)
    title = " ".join(unescape(found[1]).split())[:TITLE_CHARS] if found else ""
    said = visible(text)
    asks = bool(_password.search(text) or _words.search(title) or (len(said) <= SHORT_CHARS and _words.search(said)))
    return Page(title, asks)


def _beginning(text: str) -> int:
    """Where the first tag stands, behind comments and declarations."""
    start, found = 0, True
    while found:
        while start < len(text) and (text[start].isspace() or text[start] == "\ufeff"):
            start += 1
        found = False
        for opens, closes in _before:
            if text.startswith(opens, start) and (end := text.find(closes, start)) >= 0:
                start, found = end + len(closes), True
    return start


def visible(text: str) -> str:
    """The words of markup, on one line."""
    return " ".join(unescape(_tag.sub(" ", _unseen.sub(" ", text[:LOOKED_AT_CHARS]))).split())


def leads_to_sign_in(path: str) -> bool:
    """Returns True where an address's path looks like a sign-in page."""
    return _path.search(path) is not None
