"""Explains a model endpoint's refusal: reads its body, finds its cause, names the setting that mends it."""
