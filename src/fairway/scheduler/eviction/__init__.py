"""Who may have to make room for whom: units of eviction, protections, entitlement, and the choice of victims."""
