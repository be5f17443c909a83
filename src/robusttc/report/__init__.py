"""What people look at: plots, and later the report of a run."""
