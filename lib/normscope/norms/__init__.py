"""What a normalization call has to move and compute: ops, argument layouts, bytes and FLOPs."""
