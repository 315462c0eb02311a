"""Eviction for jobs that are entitled to the capacity: units, protections, entitlement, the choice of victims."""
