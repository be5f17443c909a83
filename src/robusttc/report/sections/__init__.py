"""The parts of the report's page that need no program to be read: each gives markup from the document."""
