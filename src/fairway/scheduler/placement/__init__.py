"""Where tasks fit and which node is best: the kernel over node columns."""
