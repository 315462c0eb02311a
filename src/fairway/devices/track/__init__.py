"""Who has which device: the ledger over nodes, holders, records on pods and claims, and what is reported."""
