"""What a live scheduler sees: many small cycles, many tenants, many shapes, jobs that wait for days."""
