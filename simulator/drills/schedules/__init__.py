"""Requests drills regularly, at the minutes of a schedule's crontab."""
