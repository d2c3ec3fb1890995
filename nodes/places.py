"""Where a path lies, as the safety check sees it: in the workspace, elsewhere, among system files, among secrets."""

import posixpath
import re
from typing import Literal, TypeAlias

from .values import HOLE

Place: TypeAlias = Literal["inside", "outside", "system", "secret"]

WORKSPACE = "/workspace"

_INSIDE = ("/workspace", "/tmp", "/var/tmp", "/dev/shm", "/mnt/data")
_HARMLESS = re.compile(
    r"/dev/(?:null|zero|full|u?random|std(?:in|out|err)|tty|fd/[012])"
    r"|/proc/(?:cpuinfo|meminfo|loadavg|uptime|version)"
    r"|/etc/(?:os-release|timezone|localtime|mime\.types)"
    r"|/usr/(?:local/)?(?:share/(?:fonts|zoneinfo|dict|nltk_data|tessdata|tesseract-ocr)|lib/python[\d.]*)(?:/.*)?"
)
_SECRET = re.compile(
    r"/etc/(?:g?shadow-?|sudoers(?:\.d)?|ssh/ssh_host.*|ssl/private|krb5\.keytab)(?:/.*)?"
    r"|/proc/(?:[^/]+/)?(?:environ|mem|maps|root|cwd|fd|kcore|keys|cmdline|sysrq-trigger)(?:/.*)?"
    r"|/dev/(?:k?mem|port|sd[a-z]\d*|nvme.*|vd[a-z]\d*|loop.*)"
    r"|(?:/var)?/run/(?:secrets|docker\.sock|containerd|crio|podman).*"
    r"|.*/(?:\.ssh|\.aws|\.azure|\.kube|\.docker|\.gnupg|\.config/gcloud|\.password-store)(?:/.*)?"
    r"|.*/(?:\.netrc|\.pgpass|\.git-credentials|\.pypirc|\.npmrc|\.my\.cnf|id_(?:rsa|dsa|ecdsa|ed25519)|docker\.sock)"
)
_SYSTEM = re.compile(
    r"/|/(?:etc|root|proc|sys|dev|boot|run|bin|sbin|lib\d*|usr|var|opt|srv|app|home)/?"
    r"|/(?:etc|root|proc|sys|dev|boot|run|bin|sbin|lib\d*|usr|var|opt|srv|app)/.*"
    r"|/home/[^/]+/\.[^/]+.*|~\w*/\.[^/]+.*"
)


def place_of(path: str) -> Place | None:
    """Sort a path.

    Args:
        path: as the code gives it; relative paths count from the workspace. It may have holes.

    Returns:
        The place; None where the beginning of the path is not known, or the text is no path.
    """
    text = re.sub(r"^file:(?://)?(?=/)", "", path)
    if not text or text.startswith(HOLE) or "\n" in text or len(text) > 4096 or "://" in text:
        return None
    if text.startswith("~"):
        full = posixpath.normpath(text)
    else:
        full = "/" + posixpath.normpath(posixpath.join(WORKSPACE, text)).lstrip("/")
    if _HARMLESS.fullmatch(full):
        return "inside"
    if full == WORKSPACE or _under(full, _INSIDE):
        # A relative `.ssh` in the workspace is the user's own folder, whatever its name.
        return "inside"
    if _SECRET.fullmatch(full):
        return "secret"
    if _SYSTEM.fullmatch(full):
        return "system"
    return "inside" if full.startswith("~") else "outside"


def is_root_of_workspace(path: str) -> bool:
    """Whether deleting this tree would delete the workspace, or an unknown part of it."""
    full = posixpath.normpath(posixpath.join(WORKSPACE, path))
    return full in {*_INSIDE, "/"} or any(mark in full for mark in ("*", "?"))


def _under(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(root + "/") for root in roots)
