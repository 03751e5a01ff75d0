"""Reads a lock (pip's requirements format with exact versions) and compares it with what is installed.

Markers follow PEP 508; only what a resolver writes into a lock is understood, anything else counts as "applies".
"""

import ast
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(?P<version>[^\s;\\]+)\s*(?:;\s*(?P<marker>[^\\]+))?")


def pins(lock: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (name, version, marker) of every line of the lock that names a package; the marker may be empty."""
    for line in lock.read_text(encoding="utf-8").splitlines():
        if found := _PIN.match(line):
            yield found["name"], found["version"], (found["marker"] or "").strip()


def satisfied(lock: Path, folder: str | None = None) -> bool:
    """Say whether the running interpreter, or a `site-packages` folder for it, has exactly the versions of the lock."""
    path = sys.path if folder is None else [folder]
    for name, version, marker in pins(lock):
        if marker and not applies(marker, this_interpreter()):
            continue
        found = next(iter(metadata.distributions(name=name, path=path)), None)
        if found is None or _version(found) != version:
            return False
    return True


def _version(found: metadata.Distribution) -> str | None:
    try:
        return found.version
    except (KeyError, FileNotFoundError):  # Newer Pythons say so of a half-removed package, older ones give None.
        return None


def this_interpreter() -> Mapping[str, str]:
    """Return the marker variables of PEP 508 for the running interpreter."""
    return {
        "python_version": "{}.{}".format(*sys.version_info),
        "python_full_version": platform.python_version(),
        "sys_platform": sys.platform,
        "os_name": os.name,
        "platform_system": platform.system(),
        "platform_machine": platform.machine(),
        "platform_python_implementation": platform.python_implementation(),
        "implementation_name": sys.implementation.name,
    }


def applies(marker: str, variables: Mapping[str, str]) -> bool:
    """Evaluate a PEP 508 marker. One that is not understood applies: a package too many is asked for, never one too few."""
    try:
        return _truth(ast.parse(marker, mode="eval").body, variables)
    except (SyntaxError, KeyError, TypeError, ValueError):
        return True


def _truth(node: ast.expr, variables: Mapping[str, str]) -> bool:
    if isinstance(node, ast.BoolOp):
        judge = all if isinstance(node.op, ast.And) else any
        return judge(_truth(value, variables) for value in node.values)
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        raise ValueError(ast.dump(node))
    left, right = _value(node.left, variables), _value(node.comparators[0], variables)
    return _COMPARISONS[type(node.ops[0])](left, right)


def _value(node: ast.expr, variables: Mapping[str, str]) -> tuple[int, ...] | str:
    text = variables[node.id] if isinstance(node, ast.Name) else ast.literal_eval(node)
    # Versions compare as numbers ("3.9" < "3.11"), everything else as text.
    return tuple(map(int, text.split("."))) if re.fullmatch(r"\d+(\.\d+)*", text) else text


_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: lambda left, right: left == right,
    ast.NotEq: lambda left, right: left != right,
    ast.Lt: lambda left, right: left < right,
    ast.LtE: lambda left, right: left <= right,
    ast.Gt: lambda left, right: left > right,
    ast.GtE: lambda left, right: left >= right,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
