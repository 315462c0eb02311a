"""Which replica decides (K12, K13)."""
