"""The load of a live scheduler: many small cycles, many tenants, many shapes, jobs that are pending for days."""
