"""Profiler traces: reading and repairing them, linking kernels to ops, and the GPU's timeline."""
