"""What the refusal of a model endpoint means: its body read, its cause found, and the setting named that mends it."""
