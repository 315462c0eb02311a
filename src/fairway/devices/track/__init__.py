"""Which pod has which device: the ledger over nodes, users, records on pods and claims, and what is reported."""
