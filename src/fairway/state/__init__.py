"""The cluster as the scheduler knows it: fed by events, kept as columns and indexes, never rebuilt."""
