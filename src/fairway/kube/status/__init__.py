"""What is written so that people and machines see how things stand: statuses, counts and events (spec K9 to K11)."""
