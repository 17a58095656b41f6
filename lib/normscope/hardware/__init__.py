"""What GPUs can do: published figures, the GPU of a trace, and a file of one's own."""
