"""Every difference between version 0.1 and the code of this clone, on the same inputs: `make compare-old`."""
