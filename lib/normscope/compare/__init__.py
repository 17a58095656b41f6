"""Two traces, run directories or results held against each other, and limits that a result has to keep."""
