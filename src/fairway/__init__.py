"""Fairway: a fair, explainable batch scheduler for Kubernetes, and a placer over fleets of clusters."""

__version__ = "0.1.0"
