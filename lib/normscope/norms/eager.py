"""Norm calls written out in Python: a chain of small ops that together are one normalization."""

from collections.abc import Set

from normscope.norms.calls import NormCall
from normscope.norms.catalog.catalog import Catalog
from normscope.trace.link import LinkedTrace


def eager_calls(_linked: LinkedTrace, _catalog: Catalog, _claimed: Set[int]) -> list[NormCall]:
    """Return the chains of ops that are norms, of kernels in no call in ``claimed``."""
    return []
