"""The one form engine: a JSON schema in, edits or refusals out. The editor and reviews draw and read their forms with
it.

A new kind of control is one row of ``CONTROLS`` in ``kinds.py``, and a template if none of ``templates/forms/controls``
draws it.
"""
