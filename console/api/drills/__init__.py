"""Programs ask for drills, schedule them and fetch their reports."""
