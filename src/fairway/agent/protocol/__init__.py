"""The protocols of a node's sockets: messages that are generated from the `.proto` files here, and calls by them.

`make protocol` writes the generated files again; a test compares.
"""
