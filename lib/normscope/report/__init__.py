"""Making a report: running the notebook, what its cells show, exporting and publishing."""
