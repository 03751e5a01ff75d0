"""The throwaway installation of a live drill lets a fabric reach enough that it can be published there."""

from console.launch.variables.table import VARIABLES
from fabric.core.spec.fabric import FabricSpec
from fabric.http.transport import Gate
from fabric.services.fabrics.publication.rules import publication_problems
from fabric.services.fabrics.yaml.document import fabric_read
from fabric.services.installation.facts import InstallationFacts
from fabric.tools.functions.permits import Permits
from simulator.drills.live.installation import outside
from tests.fabric.services.world import SMALL

ANY = {"type": "object", "properties": {}}
TOOLS = [
    {"name": "look", "kind": "http", "target": "https://crm.example/x", "headers_from": {"X-Key": "CRM"}},
    {"name": "post", "kind": "http", "target": "http://10.0.0.1:8000/x"},
    {"name": "read", "kind": "mcp", "target": "files/read"},
    {"name": "ask", "kind": "mcp", "target": "desk/ask"},
]
SERVERS = [
    {"name": "files", "transport": "stdio", "command": "mcp-files", "args": ["/srv/a b"], "variables": ["FILES_KEY"]},
    {"name": "desk", "transport": "http", "url": "http://desk.internal/mcp", "headers_from": {"Authorization": "DESK"}},
]


def test_a_fabric_with_tools_of_every_kind_can_be_published_there():
    tree = fabric_read(SMALL).spec.model_dump(mode="json", by_alias=True)
    tools = [{"description": "D", "parameters": ANY, **one} for one in TOOLS]
    spec = FabricSpec.model_validate(tree | {"tools": [*tree["tools"], *tools], "mcp_servers": SERVERS})
    given = outside(spec)
    hosts, commands, variables = (VARIABLES[name].read(name, text) for name, text in given.items())
    where = InstallationFacts(gate=Gate.trust_hosts(hosts), permits=Permits(commands, frozenset(variables)))
    assert publication_problems(spec, where) == []
    assert len(publication_problems(spec, InstallationFacts(gate=Gate()))) == 4
