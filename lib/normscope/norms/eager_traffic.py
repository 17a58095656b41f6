"""Bytes that a norm written in Python would move, were it one kernel."""


def one_kernel(*, argument_bytes_read: int, argument_bytes_written: int) -> int:
    """Norm written out as a chain of small ops.

    Formula: E(sx+sy) + N(sw+sb)

    Source: the shapes and types of the chain's first and last ops

    Assumes: one kernel for the whole chain, which saves no statistics; casts inside the chain cost nothing
    """
    return argument_bytes_read + argument_bytes_written
