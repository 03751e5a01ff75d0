"""Imports HTTP tools from an OpenAPI document (3.0 and 3.1): declarations to paste. What was not taken over is listed
with its path and reason.
"""

from fabric.services.importers.openapi.document import document_at, read_document
from fabric.services.importers.openapi.operations import Imported, build_tools

__all__ = ["Imported", "build_tools", "document_at", "read_document"]
