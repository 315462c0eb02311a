"""Which devices serve a request together: matching in polynomial time, search where it must be, strategies."""
