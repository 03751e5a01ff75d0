"""Scripted agents answer in place of a model, from the request alone and always alike."""
