"""Each write as a value: its path and body, and what its answers mean (spec K17 to K24)."""
