"""OpenAPI documents as tests read them."""

import copy
from typing import Any

SHOP: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Pet shop", "version": "1"},
    "servers": [{"url": "https://{region}.shop.example/v1", "variables": {"region": {"default": "eu"}}}],
    "security": [{"key": []}],
    "paths": {
        "/pets": {
            "parameters": [{"name": "X-Trace", "in": "header", "schema": {"type": "string"}}],
            "get": {
                "operationId": "listPets",
                "summary": "Lists pets",
                "parameters": [
                    {"name": "tags", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                    {
                        "name": "limit",
                        "in": "query",
                        "required": True,
                        "schema": {"$ref": "#/components/schemas/Limit"},
                    },
                    {"name": "seen", "in": "cookie", "schema": {"type": "string"}},
                    {"name": "Accept", "in": "header", "schema": {"type": "string"}},
                ],
            },
            "post": {
                "operationId": "addPet",
                "description": "Adds one.",
                "requestBody": {"$ref": "#/components/requestBodies/Pet"},
            },
            "head": {"operationId": "countPets"},
        },
        "/pets/{petId}": {
            "get": {
                "operationId": "getPet",
                "security": [],
                "parameters": [{"$ref": "#/components/parameters/PetId"}],
            },
            "delete": {"operationId": "removePet", "parameters": [{"$ref": "#/components/parameters/PetId"}]},
        },
        "/photos": {
            "put": {
                "operationId": "putPhoto",
                "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": {"type": "object"}}}},
            }
        },
    },
    "components": {
        "parameters": {
            "PetId": {
                "name": "petId",
                "in": "path",
                "required": True,
                "description": "Its number.",
                "schema": {"type": "integer"},
            }
        },
        "requestBodies": {
            "Pet": {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}
        },
        "schemas": {
            "Limit": {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 100},
            "Pet": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string", "example": "Rex"},
                    "example": {"type": "string", "nullable": True},
                    "parent": {"$ref": "#/components/schemas/Pet"},
                },
                "xml": {"name": "pet"},
            },
        },
        "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
    },
}


def shop(*changes: tuple[str, Any]) -> dict[str, Any]:
    """The shop, changed at dotted places whose parts are parted by a blank."""
    tree = copy.deepcopy(SHOP)
    for path, value in changes:
        *before, last = path.split(" ")
        node = tree
        for part in before:
            node = node[part]
        if value is None:
            del node[last]
        else:
            node[last] = value
    return tree
