"""From a finished session to a plan: which jobs wait and why, what is allocated, and statuses."""
