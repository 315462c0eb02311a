"""What looks after decisions that were carried out in part: gangs, claims, devices, budgets (spec K8, K14)."""
