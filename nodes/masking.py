"""Secrets taken out of text before a model, a checkpoint or a trace sees it.

Known values are masked wherever they stand, also in base64, hexadecimal, percent and backslash encoding. Besides
these, tokens whose form gives them away are masked: keys of providers, private keys, bearer tokens, passwords in
addresses. Masking is a net, not a wall: code that wants to hide a value can always encode it otherwise; what must not
be seen must not be given to the box.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from urllib.parse import quote, quote_plus

MASK = "[secret]"
_MIN_LENGTH = 4
_MIN_ENCODED = 6

_PATTERNS = (
    re.compile(r"-----BEGIN (?P<kind>[A-Z ]{0,30}PRIVATE KEY)-----.*?(?:-----END (?P=kind)-----|\Z)", re.DOTALL),
    re.compile(r"\bsk-(?:proj-|ant-|or-|live-|test-)?[A-Za-z0-9_-]{20,}"),
    re.compile(r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    re.compile(r"\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_[A-Za-z0-9_]{30,}"),
    re.compile(r"\bglpat-[A-Za-z0-9_-]{20,}"),
    re.compile(r"\bxox[abeprs]-[A-Za-z0-9-]{10,}"),
    re.compile(r"\bAIza[A-Za-z0-9_-]{35}"),
    re.compile(r"\bhf_[A-Za-z0-9]{30,}"),
    re.compile(r"\blsv2_(?:pt|sk)_[A-Za-z0-9_]{20,}"),
    re.compile(r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    re.compile(r"(?<=Bearer )[A-Za-z0-9._~+/-]{16,}=*"),
    re.compile(r"(?<=://)(?P<user>[^\s/:@]{0,64}):[^\s/@]{1,256}(?=@)"),
)


def mask(text: str, secrets: Iterable[str] = ()) -> str:
    """Replace secrets by `[secret]`.

    Args:
        text: any text.
        secrets: known values. Those shorter than 4 characters are passed over: they would mask ordinary words.
    """
    forms = _forms(tuple(sorted({secret.strip() for secret in secrets if len(secret.strip()) >= _MIN_LENGTH})))
    if forms is not None:
        text = forms.sub(MASK, text)
    for pattern in _PATTERNS:
        text = pattern.sub(lambda match: _masked(match), text)
    return text


def _masked(match: re.Match[str]) -> str:
    user = match.groupdict().get("user")
    return MASK if user is None else f"{user}:{MASK}"


@lru_cache(maxsize=32)
def _forms(secrets: tuple[str, ...]) -> re.Pattern[str] | None:
    """One pattern for all forms of all values; the longest first, so that no rest of a long one stays."""
    forms = {form for secret in secrets for form in _encoded(secret)}
    if not forms:
        return None
    return re.compile("|".join(re.escape(form) for form in sorted(forms, key=lambda form: (-len(form), form))))


def _encoded(secret: str) -> Iterator[str]:
    yield secret
    if len(secret) < _MIN_ENCODED:
        return
    data = secret.encode("utf-8", "surrogatepass")
    yield from {data.hex(), data.hex().upper()}
    yield from {quote(data, safe=""), quote_plus(data), quote(data)}
    yield from {json.dumps(secret)[1:-1], repr(secret)[1:-1]}
    yield secret[::-1]
    for lead in range(3):
        # A value inside a longer text starts at any of three places in its base64 group: the middle stays the same.
        encoded = base64.b64encode(b"\0" * lead + data).decode().rstrip("=")
        first = (0, 2, 3)[lead]
        last = len(encoded) - (1 if (lead + len(data)) % 3 else 0)
        if last - first >= 8:
            yield encoded[first:last]
            yield encoded[first:last].translate(str.maketrans("+/", "-_"))
