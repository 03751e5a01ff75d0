"""Services keep, merge and publish drafts, alone or with a second person."""
