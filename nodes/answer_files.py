"""Files that an answer says it made: one that is not there was not made."""

import re
from collections.abc import Collection

_ENDINGS = (
    "csv|tsv|txt|md|json|jsonl|xlsx?|parquet|feather|arrow|pkl|npy|npz|h5|db|sqlite|sql|"
    "png|jpe?g|gif|svg|webp|bmp|tiff?|pdf|html?|xml|ya?ml|toml|docx?|pptx?|zip|tar|gz|py|ipynb|log|wav|mp3|mp4"
)
_MADE = re.compile(
    r"\b(?:saved|wrote|written|exported|stored|created|generated|produced|dumped|drawn|drew|plotted|output)\b"
    r"|保存|写入|导出|生成",
    re.IGNORECASE,
)
_FILE = re.compile(rf"(?<![\w./:@-])[\w.~/\\-]*[\w-]\.(?:{_ENDINGS})(?![\w/-]|\.\w)", re.IGNORECASE)
_NOT = re.compile(
    r"\b(?:not|never|no|without|cannot|could|would|should|can|if|unable|failed)\b|n't|没|不|未", re.IGNORECASE
)
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n")


def missing_files(answer: str, known: Collection[str]) -> list[str]:
    """Names of files that an answer says were made and that are not there.

    Only plain claims count: a sentence with a verb of making, without a negation or a condition, that names a file.

    Args:
        answer: the text.
        known: paths of all files in the workspace, and of all that the run has handed out.
    """
    there = {_last(path) for path in known}
    found: list[str] = []
    for sentence in _SENTENCE.split(answer):
        if _MADE.search(sentence) and not _NOT.search(sentence):
            found += [match[0] for match in _FILE.finditer(sentence) if _last(match[0]) not in there]
    return list(dict.fromkeys(found))


def _last(path: str) -> str:
    """Name of the file alone: answers name files with and without their folder."""
    return re.split(r"[/\\]", path)[-1].lower()
