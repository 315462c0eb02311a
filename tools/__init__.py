"""Programs for those who work on Fairway itself."""
