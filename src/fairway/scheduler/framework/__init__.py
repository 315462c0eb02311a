"""The base of every cycle: the session, statements, hooks and their plugins, accounts and order."""
