"""What the throwaway installation of a live drill lets a fabric reach: enough that it can be published there."""

from console.variables import VARIABLES
from fabric.adapters.tools.outbound import Gate
from fabric.adapters.tools.permits import Permits
from fabric.core.spec import FabricSpec
from fabric.services.fabric_yaml import fabric_read
from fabric.services.publication import Installation, publication_problems
from simulator.drills.live import outside
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
    where = Installation(gate=Gate.of(hosts), permits=Permits(commands, frozenset(variables)))
    assert publication_problems(spec, where) == []
    assert len(publication_problems(spec, Installation(gate=Gate()))) == 4
