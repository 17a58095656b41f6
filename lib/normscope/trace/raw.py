"""Events as they stand in the file, before anything is checked."""

from typing import Any

import msgspec

NO_ARGS = msgspec.Raw()


class RawEvent(msgspec.Struct, gc=False):
    """One event; a field may be missing or of any type. ``args`` stays text: most are never looked at."""

    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    args: msgspec.Raw = NO_ARGS


class RawArgs(
    msgspec.Struct,
    gc=False,
    rename={
        "external_id": "External id",
        "external_id_2021": "external id",
        "sequence": "Sequence number",
        "forward_thread": "Fwd thread id",
        "blocks_per_sm": "blocks per SM",
        "warps_per_sm": "warps per SM",
    },
):
    """What is used of ``args``, apart from the inputs of ops."""

    correlation: Any = None
    external_id: Any = None
    external_id_2021: Any = None
    sequence: Any = None
    forward_thread: Any = None
    stream: Any = None
    device: Any = None
    grid: Any = None
    block: Any = None
    blocks_per_sm: Any = None
    warps_per_sm: Any = None
