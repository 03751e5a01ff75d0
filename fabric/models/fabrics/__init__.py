"""Tables keep fabrics, revisions, drafts and change requests."""
