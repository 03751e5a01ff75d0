"""Agents, people, services and memories act in the virtual world as its seed decides."""
