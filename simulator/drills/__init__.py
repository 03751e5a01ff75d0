"""The Django app of drills: its configuration, its Celery entry points and the conductor of batches."""
