"""Which replica decides (spec K12, K13)."""
