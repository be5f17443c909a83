"""What comes after a fit: each change writes the next version of the run."""
