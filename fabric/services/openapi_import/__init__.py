"""HTTP tools from an OpenAPI document (3.0 and 3.1): declarations to paste, and a list of what was not taken over, each with its path and why."""

from fabric.services.openapi_import.document import document_at, document_of
from fabric.services.openapi_import.operations import Imported, tools_of

__all__ = ["Imported", "document_at", "document_of", "tools_of"]
