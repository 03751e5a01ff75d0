"""Options that several commands of the app share."""
