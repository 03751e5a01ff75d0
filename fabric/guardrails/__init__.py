"""Shipped guardrails: rules as patterns of linear time, each with a corpus of what it finds and of what it must leave alone (semantics.md 9)."""
