"""Planning by run times: when capacity will be free, which waiting job it is kept for, and who may run ahead of it."""
