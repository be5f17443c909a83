"""A run: a folder that remembers every finished unit of work, and the program that fills it."""
