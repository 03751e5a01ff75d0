"""What comes back over HTTP, read by tables: headers, packed bodies, encodings of text, JSON, web pages, bytes."""
