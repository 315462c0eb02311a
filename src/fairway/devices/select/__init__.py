"""Which devices are meant: selectors, classes, expressions, and what pods and claims request by them."""
