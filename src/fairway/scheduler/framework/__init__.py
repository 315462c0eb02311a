"""What every cycle stands on: the session, statements, hooks and who implements them, accounts and order."""
