"""Every page and the API share these helpers: markup, downloads, log lines and Celery's broker of files."""
