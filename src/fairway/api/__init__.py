"""What the outside speaks: typed objects, their validation, and the files they are read from."""
