"""Checking a findings file against its contract and its metrics, and mending what is mechanical."""
