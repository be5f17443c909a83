"""What people look at: plots, and the report of a run."""
