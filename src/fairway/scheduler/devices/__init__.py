"""Devices in a session: who asks for which, which nodes have them, and which are given."""
