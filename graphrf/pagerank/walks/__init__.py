"""PageRank by random walks: how walks are dealt, counted and pooled."""
