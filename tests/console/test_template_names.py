"""Names of templates: each name in the code and in a template leads to a file, and each file is named somewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "templates"
PACKAGES = ("console", "fabric", "simulator")
_named = re.compile(r"(?:{% (?:include|extends) |\w=)\"([^\"]+\.(?:html|css|svg|txt))\"")


def files() -> set[str]:
    return {path.relative_to(TEMPLATES).as_posix() for path in TEMPLATES.rglob("*") if path.is_file()}


def names_in_module(path: Path) -> Iterator[str]:
    """Yield the template names that a module writes; `*` stands for a part that it fills in."""
    source = path.read_text()
    for node in ast.walk(ast.parse(source)) if ".html" in source else ():
        if isinstance(node, ast.JoinedStr):
            name = "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value
        else:
            continue
        if re.fullmatch(r"[\w/*]+/[\w*]+\.html", name):
            yield name


def names() -> dict[str, set[str]]:
    """Return each name of a template with the files that it is written in."""
    found: dict[str, set[str]] = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for name in names_in_module(path):
                found.setdefault(name, set()).add(path.relative_to(ROOT).as_posix())
    for path in TEMPLATES.rglob("*.html"):
        for name in _named.findall(path.read_text()):
            found.setdefault(name, set()).add(path.relative_to(ROOT).as_posix())
    return found


def test_every_name_of_a_template_leads_to_a_file():
    known = files()
    assert {name: places for name, places in names().items() if not any(fnmatchcase(one, name) for one in known)} == {}


def test_every_template_is_named_somewhere():
    written = names()
    own = {f"templates/{name}": name for name in files()}
    assert [
        name
        for path, name in own.items()
        if not any(fnmatchcase(name, pattern) and places != {path} for pattern, places in written.items())
    ] == []
