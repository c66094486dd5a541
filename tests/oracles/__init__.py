"""Slow and plain answers in NumPy float64 that share no code with jatpo: they import nothing of it."""
