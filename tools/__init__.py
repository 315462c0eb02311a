"""Programs for people who work on Fairway itself."""
