"""Whether what an answer says stands on what the run was given: citations, quotes, numbers (semantics.md 9). Pure functions of texts."""
