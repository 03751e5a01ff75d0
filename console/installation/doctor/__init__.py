"""`manage.py doctor` finds faults of an installation, and names their remedies."""
