"""Which paths and links a snapshot may name.

The box that sends a snapshot is hostile, and the box that gets it back trusts it no more than this. Nothing of a
snapshot is ever written below a path of the host; the rules stand here as well so that what could not be restored is
refused when it is taken, and what somebody put into the store is refused before it reaches a box.
"""

from collections.abc import Iterable, Mapping

from .box_files import OWN, split_path

MAX_HOPS = 40
"""Links that a path may lead through; Linux refuses to follow more."""


def check_path(path: str) -> str:
    """Take a path of the workspace in its one canonical form: relative, `a/b/c`.

    Raises:
        ValueError: it is not in that form, leaves the workspace, is too long or too deep, cannot be written as UTF-8,
            or lies in the supervisor's own folder.
    """
    parts = split_path(path)
    if "/".join(parts) != path:
        raise ValueError("the path is not in its shortest form")
    if parts[0] == OWN:
        raise ValueError(f"the path lies in {OWN}, which belongs to the supervisor")
    if len(path.encode("utf-8")) > 4096:  # a lone surrogate is a ValueError here
        raise ValueError("the path is longer than 4096 bytes")
    return path


def check_target(target: str) -> str:
    """Take the target of a link by its form alone; where it leads is for `check_tree`.

    Raises:
        ValueError: it is empty, absolute, too long or cannot be the target of a link.
    """
    parts = target.split("/")
    if not target or not parts[0] or "\0" in target:
        raise ValueError("the target of the link is not a relative path")
    if len(parts) > 48 or len(target.encode("utf-8")) > 4096:
        raise ValueError("the target of the link is too long")
    return target


def check_tree(paths: Iterable[str], folders: Iterable[str], links: Mapping[str, str]) -> None:
    """Check that files, empty folders and links can stand beside each other and that no link leads out.

    Args:
        paths: of the files.
        folders: that are empty.
        links: path to target.

    Raises:
        ValueError: a path lies below a file or a link, or the target of a link lies outside the workspace.
    """
    files = set(paths)
    leaves = files | links.keys()
    for path in (*leaves, *folders):
        for end in (place for place, letter in enumerate(path) if letter == "/"):
            if path[:end] in leaves:
                raise ValueError(f"{path[:200]!r} lies below something that is not a folder")
    for link in links:
        _follow(link, links)


def _follow(link: str, links: Mapping[str, str]) -> None:
    """Walk a link as the kernel does, link by link: joining the texts would misjudge `..` behind another link."""
    here: list[str] = []
    ahead = link.split("/")[::-1]
    hops = 0
    while ahead:
        part = ahead.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if not here:
                raise ValueError(f"the link {link[:200]!r} leads out of the workspace")
            here.pop()
            continue
        target = links.get("/".join((*here, part)))
        if target is None:
            here.append(part)
            continue
        hops += 1
        if hops > MAX_HOPS:
            return  # the kernel gives up here as well: a circle leads nowhere
        ahead.extend(target.split("/")[::-1])
