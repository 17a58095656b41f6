"""From a linked trace to a run directory in TraceLens' layout, which the analysis reads like any other."""
