"""Speed as ratios, each measured in one run against a stated limit."""
