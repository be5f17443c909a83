"""Speed and memory, measured side by side with the plain way; run by `make bench-NAME`."""
