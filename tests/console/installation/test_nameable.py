"""All that an installation without a word of the operator's lets a fabric name; and that nothing else is loaded by name."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from console.launch.processes.data_directory import ROOT
from console.launch.variables.table import read
from fabric.composition import models as model_ports
from fabric.http.transport import Gate
from fabric.policies.graph_rules import build_registry
from fabric.services.installation import facts as here
from fabric.tools.functions.named_tools import build_tools
from fabric.tools.functions.permits import Permits
from fabric.tools.runner import BUILTINS
from simulator.installation.database import clean_environment

OPERATORS = (
    "FABRIC_TOOLS",
    "FABRIC_PROVIDERS",
    "FABRIC_GRAPH_RULES",
    "FABRIC_MCP_COMMANDS",
    "FABRIC_TOOL_VARIABLES",
    "FABRIC_ALLOWED_HOSTS",
    "FABRIC_EXTRA_BODY",
)
INSIDE = ("10.0.0.1", "127.0.0.1", "169.254.169.254", "192.168.1.1", "[::1]", "[fd00::1]")


@pytest.fixture
def unconfigured(settings):
    for name in OPERATORS:
        assert read(name, {}) is None
        setattr(settings, name, type(getattr(settings, name))())


def test_all_that_a_fabric_may_name_where_the_operator_named_nothing(unconfigured):
    permits, installed = here.permits(), here.installation()
    assert {name: tool.path for name, tool in permits.tools.items()} == {
        "paper-reserve": "simulator.tools.payments.reserve",
        "paper-release": "simulator.tools.payments.release",
        "paper-pay": "simulator.tools.payments.pay",
        "drill-lookup": "simulator.tools.lookup.lookup",
    }
    assert set(BUILTINS) == {"read_document", "search_documents", "calculator", "http_get", "ask_person"}
    assert model_ports.provider_names() == {
        *("openai", "anthropic", "google", "azure", "bedrock", "vertex"),
        *("scripted", "fixed"),
    }
    assert model_ports.PROVIDERS == {
        "scripted": "simulator.agents.provider.ScriptedProvider",
        "fixed": "fabric.providers.fixed.Fixed",
    }
    assert (installed.registry.conditions.names, installed.registry.targets.names) == ((), ())
    assert (permits.commands, permits.variables) == ((), frozenset())
    assert [host for host in INSIDE if not installed.gate.problem(f"https://{host}/")] == []


def test_what_the_operator_names_is_all_that_is_added(settings):
    settings.FABRIC_TOOLS = {"mine": "tests.fabric.tools.functions.sample_tools.add"}
    assert set(here.permits().tools) == {*build_tools({}), "mine"}


def test_what_stands_for_an_installation_in_the_code_allows_no_more():
    assert (Permits().commands, Permits().variables, Permits().tools) == ((), frozenset(), build_tools({}))
    assert build_registry(()).conditions.names == ()
    assert Gate().problem("https://10.0.0.1/")


LOADERS = {"import_module", "import_string", "__import__", "run_module", "run_path", "exec", "eval", "exec_module"}
LOADED = {
    "fabric/composition/engine.py": 1,  # FABRIC_FAULTS, of the drills' own processes.
    "fabric/composition/models.py": 1,  # FABRIC_PROVIDERS.
    "fabric/policies/graph_rules.py": 1,  # FABRIC_GRAPH_RULES.
    "fabric/tools/functions/callables.py": 1,  # FABRIC_TOOLS.
    "fabric/tools/mcp/servers.py": 1,  # A constant; it is handed over as a function.
    "fabric/policies/expressions/evaluation.py": 2,  # Constants: the library of expressions, whole or its compiled part.
    "console/live/admission.py": 1,  # Django's SESSION_ENGINE.
}
"""Files of the product that load a module by a name, how often, and whose word the name is. None of them is a fabric's."""


def names_of(tree: ast.AST) -> list[str]:
    """Each mention of a function that loads by name, but for its import."""
    found = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    found += [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return [name for name in found if name in LOADERS]


def test_what_loads_a_module_by_a_name_is_known():
    found: Counter[str] = Counter()
    for package in ("fabric", "console", "simulator"):
        for path in sorted((ROOT / package).rglob("*.py")):
            source = path.read_text()
            if any(re.search(rf"\b{name}\b", source) for name in LOADERS):
                found[path.relative_to(ROOT).as_posix()] += len(names_of(ast.parse(source)))
    assert +found == LOADED


# -- the tests are on no path of a running installation ------------------------------------------------------------------

IMPORTING = """
import sys
from {module} import {name}
for one in ("tests", "tests.fabric.tools.functions.sample_tools"):
    try:
        __import__(one)
    except ModuleNotFoundError:
        continue
    sys.exit(one + " can be imported")
"""


@pytest.mark.parametrize(("module", "name"), [("console.asgi", "application"), ("console.celery", "app")])
def test_a_process_of_an_installation_can_import_nothing_of_the_tests(module: str, name: str, tmp_path: Path):
    """As uvicorn and celery are started: in the checkout, by ``python -m``, which puts it on the path."""
    environment = clean_environment() | {"DJANGO_SETTINGS_MODULE": "console.settings", "FABRIC_DATA": str(tmp_path)}
    code = IMPORTING.format(module=module, name=name)
    if name == "app":
        code = code.replace("for one", "app.conf.task_acks_late\nfor one", 1)  # What has it read its settings.
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
