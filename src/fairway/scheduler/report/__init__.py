"""From a finished session to a plan: who waits and why, who holds how much, what statuses say."""
