"""All measuring code: what this machine does in which time and memory (`jatpo bench`, docs/performance.md)."""
