"""One server for all tasks of a run: HTTP API and web page."""
