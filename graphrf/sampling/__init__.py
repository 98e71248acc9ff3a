"""How features are drawn: by walks or by powers, on CPU and GPU, in memory or into a folder."""
