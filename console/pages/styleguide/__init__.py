"""The style guide shows every component in every state."""
