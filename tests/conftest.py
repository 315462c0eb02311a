"""Makes `support`, what several test folders share, importable from all of them."""
