"""Constant folding of text: what pure string functions give for arguments that are known.

Only functions that cannot grow without bound or touch anything are computed, on texts of bounded size.
"""

import base64
import binascii
import codecs
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from .values import HOLE, MAX_TEXT, Text

_PLACEHOLDER = re.compile(r"%%|%[-#0 +]*\d{0,3}(?:\.\d{1,3})?[sdrixXfegc]")
_FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
_SIMPLE: Mapping[str, Callable[..., str]] = {
    "lower": str.lower,
    "upper": str.upper,
    "casefold": str.casefold,
    "swapcase": str.swapcase,
    "title": str.title,
    "capitalize": str.capitalize,
    "strip": str.strip,
    "lstrip": str.lstrip,
    "rstrip": str.rstrip,
    "removeprefix": str.removeprefix,
    "removesuffix": str.removesuffix,
    "replace": str.replace,
}
_DECODERS: Mapping[str, Callable[[bytes], bytes]] = {
    "base64.b64decode": base64.b64decode,
    "base64.standard_b64decode": base64.b64decode,
    "base64.urlsafe_b64decode": base64.urlsafe_b64decode,
    "base64.decodebytes": base64.decodebytes,
    "base64.b32decode": base64.b32decode,
    "base64.b16decode": base64.b16decode,
    "base64.b85decode": base64.b85decode,
    "base64.a85decode": base64.a85decode,
    "binascii.unhexlify": binascii.unhexlify,
    "binascii.a2b_hex": binascii.unhexlify,
    "binascii.a2b_base64": binascii.a2b_base64,
    "builtins.bytes.fromhex": lambda data: bytes.fromhex(data.decode("ascii")),
    "builtins.bytearray.fromhex": lambda data: bytes.fromhex(data.decode("ascii")),
    "zlib.decompress": lambda data: zlib.decompressobj().decompress(data, MAX_TEXT),
}
DECODERS = frozenset(_DECODERS) | {"codecs.decode", "gzip.decompress", "lzma.decompress", "bz2.decompress"}
"""Functions that turn a hidden text into a plain one."""


def concatenate(parts: Sequence[Text | None]) -> Text | None:
    """Join texts; None, for an unknown part, leaves a hole. Without any known part there is no text."""
    known = [part for part in parts if part is not None]
    if not known or sum(len(part.value) for part in known) > MAX_TEXT:
        return None
    value = "".join(HOLE if part is None else part.value for part in parts)
    return Text(value, known[0].kind, any(part.decoded for part in known))


def method(text: Text, name: str, arguments: Sequence[Text | None]) -> Text | None:
    """Result of a string method, or None where it is not computed."""
    if name in {"encode", "decode"}:
        return Text(text.value, "bytes" if name == "encode" else "str", text.decoded)
    known = [argument.value for argument in arguments if argument is not None]
    if name not in _SIMPLE or len(known) != len(arguments) or not text.whole:
        return None
    if name == "replace" and known and len(text.value) * max(len(known[-1]), 1) > MAX_TEXT * 10:
        return None
    try:
        value = _SIMPLE[name](text.value, *known)
    except TypeError:
        return None
    return Text(value[:MAX_TEXT], text.kind, text.decoded)


def percent(template: Text, arguments: Sequence[Text | None]) -> Text | None:
    """`template % arguments`."""
    return _fill(template, _PLACEHOLDER, arguments, lambda match: match[0] == "%%")


def braces(template: Text, arguments: Sequence[Text | None], named: Mapping[str, Text | None]) -> Text | None:
    """`template.format(*arguments, **named)`; a field with a format or an attribute stays unknown."""
    return _fill(template, _FIELD, arguments, lambda match: match[0] in {"{{", "}}"}, named)


def _fill(
    template: Text,
    pattern: re.Pattern[str],
    arguments: Sequence[Text | None],
    literal: Callable[[re.Match[str]], bool],
    named: Mapping[str, Text | None] = MappingProxyType({}),
) -> Text | None:
    parts: list[Text | None] = []
    position = used = 0
    for match in pattern.finditer(template.value):
        parts.append(Text(template.value[position : match.start()]))
        position = match.end()
        if literal(match):
            parts.append(Text(match[0][0]))
            continue
        field = match[1] if pattern is _FIELD else ""
        if match[0].endswith("c") and pattern is _PLACEHOLDER:
            parts.append(None)  # a number here stands for a character
            used += 1
            continue
        if field in named:
            parts.append(named[field])
            continue
        index = int(field) if field.isdecimal() and len(field) < 4 else used
        parts.append(arguments[index] if index < len(arguments) and (field.isdecimal() or not field) else None)
        used += 1
    parts.append(Text(template.value[position:]))
    return concatenate(parts)


def join_paths(parts: Sequence[Text | None]) -> Text | None:
    """Join path pieces; an absolute piece begins anew."""
    result = ""
    for part in parts:
        piece = part.value if part is not None else HOLE
        result = piece if piece.startswith("/") or not result else f"{result.rstrip('/')}/{piece}"
    return Text(result, "path") if result and len(result) < MAX_TEXT else None


def decode(function: str, data: Text, codec: str = "utf-8") -> Text | None:
    """Result of a decoding function such as `base64.b64decode` or `codecs.decode`."""
    if not data.whole or len(data.value) > MAX_TEXT:
        return None
    try:
        if function == "codecs.decode":
            return _codec(data, codec)
        raw = _DECODERS[function](data.value.encode("latin-1")) if function in _DECODERS else None
    except (ValueError, KeyError, zlib.error, TypeError):
        return None
    return None if raw is None else Text(raw.decode("latin-1"), "bytes", decoded=True)


def _codec(data: Text, codec: str) -> Text | None:
    name = codec.lower().replace("-", "").replace("_", "")
    if name in {"rot13", "rot"}:
        return Text(codecs.decode(data.value, "rot13"), "str", decoded=True)
    if name in {"hex", "hexcodec"}:
        return decode("binascii.unhexlify", data)
    if name in {"base64", "base64codec"}:
        return decode("base64.b64decode", data)
    return Text(data.value, "str", data.decoded)
