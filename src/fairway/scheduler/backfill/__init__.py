"""Planning by run times: when capacity will be free, which job it is kept for, and which may start before it."""
