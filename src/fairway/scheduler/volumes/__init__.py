"""Volumes that claims wait for: which there are, and which pod of a cycle gets which."""
