"""What looks after decisions that were carried out in part: gangs, claims, devices, budgets (K8, K14)."""
