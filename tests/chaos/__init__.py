"""A campaign of faults against jatpo's guarantees: `make chaos`, or `make chaos ARGS=--short` for two minutes."""
