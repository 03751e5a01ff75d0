"""What an expression in CEL costs, as far as its text says: whether it goes through a list, and how often at most."""

from __future__ import annotations

import re

NESTING_MAX = 2
"""Macros within each other that go through a list."""
TURNS_MAX = 10_000
"""Turns that lists written in the expression may make: the longest of them, to the power of the nesting."""
PLUS_MAX = 8
"""Plus signs with which an expression without a loop is evaluated where it is asked: each may copy the longest text."""
MACROS = ("all", "exists", "exists_one", "existsOne", "map", "filter")
_TEXT = re.compile(
    r'(?:(?<!\w)[bB]?[rR](?:"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\'|"[^"\n]*"|\'[^\'\n]*\'))'
    r'|"""(?:[^\\]|\\[\s\S])*?"""|\'\'\'(?:[^\\]|\\[\s\S])*?\'\'\''
    r"|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\""
    r"|//[^\n]*"
)
"""Texts and comments: a sign in them is none."""
_LOOP = re.compile(rf"\.\s*(?:{'|'.join(MACROS)})\s*\(")
_WORD = re.compile(rf"\b(?:{'|'.join(MACROS)})\b")
_SIGN = re.compile(rf"{_LOOP.pattern}|[\[({{,\])}}]")


def without_texts(expression: str) -> str:
    """An expression with every text in it empty, and without its comments."""
    return _TEXT.sub(lambda found: " " if found[0].startswith("//") else "''", expression)


def loops(expression: str) -> bool:
    """Whether it goes through a list."""
    return _LOOP.search(without_texts(expression)) is not None


def may_take_long(expression: str) -> bool:
    """Whether it might take long, so that it is evaluated in a process of its own. A word that is a macro's name anywhere is enough, and so are many plus signs."""
    return _WORD.search(expression) is not None or expression.count("+") > PLUS_MAX


def too_costly(expression: str) -> str:
    """Why it is not published, as the end of a sentence; empty: it may be. What it reads of a run is not counted: a deadline bounds that."""
    open_: list[tuple[bool, int]] = []
    nesting = longest = 0
    for found in _SIGN.finditer(without_texts(expression)):
        sign = found[0]
        if sign == ",":
            if open_:
                macro, commas = open_[-1]
                open_[-1] = (macro, commas + 1)
        elif sign in ("]", ")", "}"):
            macro, commas = open_.pop() if open_ else (False, 0)
            longest = longest if macro or sign == ")" else max(longest, commas + 1)
        else:
            open_.append((sign.startswith("."), 0))
            nesting = max(nesting, sum(macro for macro, _ in open_))
    if nesting > NESTING_MAX:
        return f"goes through lists within each other {nesting} deep; at most {NESTING_MAX}"
    if nesting and longest**nesting > TURNS_MAX:
        return f"may go through its own lists {longest**nesting:,} times; at most {TURNS_MAX:,}, so write shorter lists"
    return ""
