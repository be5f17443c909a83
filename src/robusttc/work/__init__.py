"""Units of work: what long computations are cut into, so that they can be spread, stored and repeated."""
