"""Learning a new task from a handful of rows, with what other tasks taught (section 3.4, Algorithm 3)."""
