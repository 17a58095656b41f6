"""The ``args`` of an event, decoded as far as they are used."""

from typing import TypeVar

import msgspec

Args = TypeVar("Args", bound=msgspec.Struct)


def decode_args(decoder: msgspec.json.Decoder[Args], text: bytes | msgspec.Raw, model: type[Args]) -> Args:
    """Return what is used of ``args``; an entry that is not of its type counts as missing."""
    try:
        return decoder.decode(text)
    except (ValueError, RecursionError, msgspec.DecodeError):
        return _loose_args(text, model)


def _loose_args(text: bytes | msgspec.Raw, model: type[Args]) -> Args:
    """Return the entries of ``args`` that ``model`` has a field for and that are of its type."""
    try:
        entries = msgspec.json.decode(text)
    except (ValueError, RecursionError, msgspec.DecodeError):
        return model()
    if not isinstance(entries, dict):
        return model()
    usable = {}
    for field in msgspec.structs.fields(model):
        try:
            value = msgspec.convert(entries.get(field.encode_name), field.type, strict=False)
        except (ValueError, msgspec.ValidationError):
            continue
        usable[field.name] = value
    return model(**usable)
