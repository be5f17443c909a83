"""Tasks that come to a finished run, or leave it."""
