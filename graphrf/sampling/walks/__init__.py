"""Random walks: laws and couplings of their lengths, and the loops that walk."""
