"""Recorded inputs of ops, decoded once for all calls that are alike."""

from normscope.trace.events import CpuOp, OpArgs

_FIRST_KEYS = (b'"Input ', b'"Concrete ')
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

    What comes before are ids, which differ from call to call; some profilers write them behind the inputs.
    Equal texts mean equal inputs.
    """
    if _ESCAPE in raw_args:
        return raw_args
    starts = [place for key in _FIRST_KEYS if (place := raw_args.find(key)) >= 0]
    return raw_args[min(starts) :] if starts else b""
