"""The input formats: typed objects, their validation, and the files they are read from."""
