"""Gangs in one domain of the network, or in few: which domains there are, and in which order they are tried."""
