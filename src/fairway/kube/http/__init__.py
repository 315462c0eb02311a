"""Requests and their answers: connections of our own, limits, time limits, and what the answers mean."""
