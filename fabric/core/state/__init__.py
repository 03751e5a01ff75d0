"""State of a run by its journal, and the other inputs of a decision."""
