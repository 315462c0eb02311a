"""Devices in a session: what is requested, which nodes have it, and which devices are assigned."""
