"""Recorded inputs of ops, decoded once for all calls that are alike."""

import re

from normscope.trace.events import CpuOp, OpArgs

_INPUTS, _VALUES = b'"Input ', b'"Concrete '
_NUMBER = b'"Ev Idx"'
_LAST_NUMBER = re.compile(rb'"Ev Idx"\s*:\s*\d+\s*\}')
_ESCAPE = b"\\u"  # of a key, it would hide one of the above


class SharedArgs:
    """Decodes inputs; ops with equal inputs get the same object, so that it can stand for them."""

    def __init__(self) -> None:
        self._by_text: dict[bytes, OpArgs] = {}
        self._by_value: dict[str, OpArgs] = {}

    def of(self, op: CpuOp) -> OpArgs:
        """Return the recorded inputs of ``op``."""
        text = inputs_text(op.raw_args)
        found = self._by_text.get(text)
        if found is None:
            args = op.args()
            found = self._by_text[text] = self._by_value.setdefault(repr(args), args)
        return found


def inputs_text(raw_args: bytes) -> bytes:
    """Return the part of an op's arguments, as text, that holds its inputs.

    What comes before are ids, which differ from call to call, as does the number of the event that may come
    behind; some profilers write all of them there. Equal texts mean equal inputs.
    """
    if raw_args.find(_ESCAPE) >= 0:
        return raw_args
    inputs, values = raw_args.find(_INPUTS), raw_args.find(_VALUES)
    if inputs < 0 and values < 0:
        return b""
    start = min(inputs, values) if inputs >= 0 and values >= 0 else max(inputs, values)
    number = raw_args.rfind(_NUMBER)
    is_last = number > start and _LAST_NUMBER.fullmatch(raw_args, number)
    return raw_args[start:number] if is_last else raw_args[start:]
