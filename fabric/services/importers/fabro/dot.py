"""Reads directed graphs in the DOT language with the line of each part: nodes, edges, attributes, defaults,
subgraphs.

Libraries that read DOT keep no lines, and an import is reported line by line. It reads less than DOT: one
``digraph``, no HTML text; attribute names may have dots. The rest is read as pydot 4 reads it, except for `;` between
attributes, which DOT has and pydot does not know. It reads more than DOT: bare values as Fabro writes them, durations
(``30m``) and words with hyphens (``gpt-5.2-codex``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, NoReturn

BYTES_MAX = 256 * 1024
DEPTH_MAX = 16
"""Levels of subgraphs."""
EDGES_MAX = 4_000
"""Largest number of edges, and of nodes: a line between two subgraphs is one from each to each."""


class DotProblem(ValueError):
    """Text that cannot be read. The message is one sentence without its place; ``line`` counts from 1."""

    def __init__(self, sentence: str, line: int) -> None:
        super().__init__(sentence)
        self.line = line


class DotAttribute(NamedTuple):
    """A value with its line."""

    value: str
    line: int


Attributes = dict[str, DotAttribute]


@dataclass(slots=True)
class DotNode:
    """A node at its first place."""

    id: str
    line: int
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DotEdge:
    """One edge of the graph."""

    source: str
    target: str
    line: int
    attributes: Attributes = field(default_factory=dict)


@dataclass(slots=True)
class DotGraph:
    """Parsed content of a text."""

    name: str = ""
    attributes: Attributes = field(default_factory=dict)
    nodes: dict[str, DotNode] = field(default_factory=dict)
    edges: list[DotEdge] = field(default_factory=list)
    inner: list[tuple[str, DotAttribute]] = field(default_factory=list)
    """Attributes of subgraphs, by name."""


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


_TOKENS = re.compile(
    r"(?P<skip>\s+|//[^\n]*|/\*.*?\*/|^\#[^\n]*)"
    r"|(?P<arrow>->|--)"
    r'|(?P<quoted>"(?:[^"\\]|\\.)*")'
    r"|(?P<number>-?(?:\.\d+|\d+(?:\.\d*)?)(?:ms|[smhd])?(?![\w.]))"
    r"|(?P<word>[^\W\d]\w*(?:\.[^\W\d]\w*|(?:-[^\W_]\w*(?:\.\w+)*))*)"
    r"|(?P<mark>[{}\[\]=;,+:])",
    re.DOTALL | re.MULTILINE,
)
_END = "the end of the text"


def dot_read(text: str) -> DotGraph:
    """Return the graph in a text. Raises DotProblem for any other text, and for one that is too large."""
    if len(text.encode("utf-8", "surrogatepass")) > BYTES_MAX:
        raise DotProblem(f"is larger than {BYTES_MAX // 1024} KB, the most that is read", 1)
    return _Reader(list(_tokens(text))).graph()


def _tokens(text: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        found = _TOKENS.match(text, at)
        if found is None:
            raise DotProblem(_unknown(text[at]), line)
        kind = str(found.lastgroup)
        if kind != "skip":
            yield _Token(kind, found.group(), line)
        line += found.group().count("\n")
        at = found.end()
    yield _Token("end", _END, line)


def _unknown(char: str) -> str:
    if char == '"':
        return "has a quotation mark that no other one closes"
    if char == "<":
        return "has HTML text, which is not read; write it in quotation marks"
    return f"has {char!r} where nothing of DOT has it"


@dataclass(slots=True)
class _Scope:
    """Defaults for all later declarations within one pair of braces."""

    node: Attributes
    edge: Attributes
    members: dict[str, None] = field(default_factory=dict)


class _Reader:
    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens = tokens
        self.at = 0
        self.dot = DotGraph()

    # -- tokens --------------------------------------------------------------------------------------------------------

    @property
    def next(self) -> _Token:
        return self.tokens[self.at]

    def take(self) -> _Token:
        token = self.next
        self.at += 1
        return token

    def take_token(self, *texts: str) -> bool:
        """Return True, and take the next token, if it is one of these marks or keywords; DOT ignores their case."""
        if self.next.kind == "quoted" or self.next.text.lower() not in texts:
            return False
        self.at += 1
        return True

    def wrong(self, wanted: str) -> NoReturn:
        raise DotProblem(f"has {self.next.text[:40]} where {wanted} is expected", self.next.line)

    def id(self, wanted: str) -> str:
        if self.next.kind not in ("word", "number", "quoted") or self._keyword():
            self.wrong(wanted)
        token = self.take()
        text = _plain(token)
        while token.kind == "quoted" and self.take_token("+"):
            if self.next.kind != "quoted":
                self.wrong("more text in quotation marks")
            text += _plain(self.take())
        return text

    def _keyword(self) -> bool:
        words = ("node", "edge", "graph", "digraph", "subgraph", "strict")
        return self.next.kind == "word" and self.next.text.lower() in words

    # -- statements ----------------------------------------------------------------------------------------------------

    def graph(self) -> DotGraph:
        self.take_token("strict")
        if self.next.text.lower() == "graph":
            raise DotProblem("is an undirected graph; a workflow is a digraph", self.next.line)
        if not self.take_token("digraph"):
            self.wrong("digraph")
        if self.next.text != "{":
            self.dot.name = self.id("a name or {")
        self.block(_Scope({}, {}), 0)
        if self.next.kind != "end":
            self.wrong("the end, after one graph,")
        return self.dot

    def block(self, scope: _Scope, depth: int) -> None:
        if not self.take_token("{"):
            self.wrong("{")
        if depth > DEPTH_MAX:
            raise DotProblem(f"has subgraphs nested deeper than {DEPTH_MAX} levels; make it flatter", self.next.line)
        while not self.take_token("}"):
            self.statement(scope, depth)
            self.take_token(";")

    def statement(self, scope: _Scope, depth: int) -> None:
        line = self.next.line
        if self.next.kind == "word" and self.take_token("node", "edge", "graph"):
            where = {"node": scope.node, "edge": scope.edge}.get(self.tokens[self.at - 1].text.lower())
            found = self.attributes()
            self._of_graph(found, depth) if where is None else where.update(found)
            return
        if self._assigns():
            name = self.id("a name")
            self.take()
            self._of_graph({name: DotAttribute(self.id("a value"), line)}, depth)
            return
        ends = [self.end(scope, depth)]
        lines = [line]
        while self.take_token("->"):
            lines.append(self.next.line)
            ends.append(self.end(scope, depth))
        if self.next.kind == "arrow":
            self.wrong("-> in a digraph")
        found = self.attributes() if self.next.text == "[" else {}
        if len(ends) > 1:
            self._edges(ends, line, {**scope.edge, **found})
        elif ends[0]:
            for one in ends[0]:
                self.dot.nodes[one].attributes.update(found)

    def _assigns(self) -> bool:
        return self.next.kind in ("word", "number", "quoted") and self.tokens[self.at + 1].text == "="

    def _of_graph(self, found: Attributes, depth: int) -> None:
        if depth:
            self.dot.inner.extend(found.items())
        else:
            self.dot.attributes.update(found)

    def end(self, scope: _Scope, depth: int) -> list[str]:
        """Return one end of an edge: a node, or the nodes of a subgraph."""
        if self.next.text == "{" or (self.next.kind == "word" and self.next.text.lower() == "subgraph"):
            if self.take_token("subgraph") and self.next.text != "{":
                self.id("a name or {")
            within = _Scope(dict(scope.node), dict(scope.edge))
            self.block(within, depth + 1)
            scope.members |= within.members
            return list(within.members)
        line, name = self.next.line, self.id("a node")
        while self.take_token(":"):  # A port: where at the node the line begins.
            self.id("a port")
        if name not in self.dot.nodes:
            self._check_size(line)
            self.dot.nodes[name] = DotNode(name, line, dict(scope.node))
        scope.members[name] = None
        return [name]

    def _edges(self, ends: list[list[str]], line: int, attributes: Attributes) -> None:
        for sources, targets in pairwise(ends):
            for source in sources:
                for target in targets:
                    self._check_size(line)
                    self.dot.edges.append(DotEdge(source, target, line, dict(attributes)))

    def _check_size(self, line: int) -> None:
        if max(len(self.dot.nodes), len(self.dot.edges)) >= EDGES_MAX:
            raise DotProblem(f"has more than {EDGES_MAX} nodes or edges, the most that is read", line)

    def attributes(self) -> Attributes:
        found: Attributes = {}
        if self.next.text != "[":
            self.wrong("[")
        while self.take_token("["):
            while not self.take_token("]"):
                line, name = self.next.line, self.id("the name of an attribute")
                found[name] = DotAttribute(self.id("a value") if self.take_token("=") else "true", line)
                self.take_token(",", ";")
        return found


def _plain(token: _Token) -> str:
    """Return the text of an id. In quotation marks only the mark itself is escaped, and a backslash at a line's end
    joins it to the next.
    """
    if token.kind != "quoted":
        return token.text
    return token.text[1:-1].replace("\\\n", "").replace('\\"', '"')
