"""Norms written out in Python as PyTorch itself records them, with pretended kernels."""

import pytest

from eager_norms import EagerProfile
from normscope.norms.calls import NormCall
from normscope.norms.catalog.catalog import load_catalog
from normscope.norms.find import find_norms
from torch_profiles import with_pretend_kernels
from trace_inputs import link_events

pytestmark = pytest.mark.usefixtures("torch_installed")

# x is (2,5,16), normalized over the last axis
ELEMENTS, WIDTH = 2 * 5 * 16, 16
SIZES = {"fp32": 4, "bf16": 2}
"""Bytes of an element of x, y and the parameters."""
WITH_BIAS = ("mean_layer_norm", "var_layer_norm", "std_layer_norm")


def calls_of(profile: EagerProfile) -> list[NormCall]:
    return find_norms(link_events(*with_pretend_kernels(profile.events)), load_catalog())


def test_recorded_norms_are_found_and_decoys_are_not(eager_profiles: dict[str, EagerProfile]) -> None:
    for name, profile in eager_profiles.items():
        calls = calls_of(profile)
        assert {call.found_by for call in calls} <= {"eager"}, name
        directions = [call.direction for call in calls]
        assert directions.count("forward") == profile.calls, name
        assert directions.count("backward") == profile.calls * profile.backward, name


def test_one_kernel_in_their_place_would_move_less(eager_profiles: dict[str, EagerProfile]) -> None:
    for name, profile in eager_profiles.items():
        parameters = 2 if profile.norm in WITH_BIAS else 1
        moved = SIZES[profile.dtype] * (2 * ELEMENTS + parameters * WIDTH)
        for call in calls_of(profile):
            if call.direction == "forward":
                assert call.cost.bytes_moved == moved, name
                assert call.launched_bytes is not None, name
                assert call.launched_bytes > moved, name


def test_no_kernel_belongs_to_two_calls(eager_profiles: dict[str, EagerProfile]) -> None:
    for name, profile in eager_profiles.items():
        events = [event for call in calls_of(profile) for event in (*call.norm_events, *call.helper_events)]
        assert len(events) == len(set(events)), name
