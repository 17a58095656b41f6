"""From the operations of a category to its metrics: efficiency, impact and the groups that share a cause."""
