"""Reads answers that come back over HTTP by tables: headers, packed bodies, encodings of text, JSON, web pages, bytes."""
