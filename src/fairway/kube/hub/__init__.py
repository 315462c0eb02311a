"""A hub of clusters: decisions of `fleet` carried out on its API server, as consumers of OCM read them."""
