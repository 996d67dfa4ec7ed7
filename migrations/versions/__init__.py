"""One idea per file."""
