"""Random walks: distributions and couplings of their lengths, and the loops that walk."""
