"""How well a classifier of one task serves another: which pairs to measure, and the measuring."""
