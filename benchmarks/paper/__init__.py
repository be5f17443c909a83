"""The tables of the paper, on open data, and beyond them: one command a table."""
