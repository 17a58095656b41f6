"""Reading a TraceLens run directory: its paths, the ops table and the metadata of a category."""
