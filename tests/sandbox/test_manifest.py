"""What a box may say a snapshot holds: everything else is refused as a whole, whoever said it."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actloop.errors import SnapshotRefused
from actloop.sandbox import manifest as rules
from actloop.sandbox.manifest import Manifest, digest_of, is_point, read_manifest
from actloop.sandbox.packing import INLINE, pack, unpack

D = digest_of(b"x")
HUGE = 10**400


def unit(*names: str, **other: Any) -> dict[str, Any]:
    return {"names": names or ("x",), "contents": [[D]], "sizes": [1], **other}


def file(path: str = "a.txt", **other: Any) -> dict[str, Any]:
    return {"path": path, "size": 1, "mode": 0o644, "mtime_ns": 0, "chunks": [D], **other}


def raw(**other: Any) -> dict[str, Any]:
    return {"point": "c1", "parent": None, "python": "3.11.2", **other}


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def test_a_whole_manifest_is_read() -> None:
    found = read_manifest(
        raw(
            parent="c0",
            units=[unit("b", "a"), unit("_under", contents=[[D, D], []], sizes=[(1 << 20) + 1, 0])],
            skipped=[{"name": "f", "type": "TextIOWrapper", "why": "an open file cannot be kept"}],
            files=[file("z/ü b\n.txt", mode=0o755, mtime_ns=-1), file("empty", size=0, chunks=[])],
            skipped_files=[{"path": "../core", "size": 1 << 40, "why": "too large"}],
            folders=["left/empty"],
            links=[["z/latest", "../empty"]],
        )
    )
    assert [unit.names for unit in found.units] == [("_under",), ("b", "a")]
    assert [file.path for file in found.files] == ["empty", "z/ü b\n.txt"]
    assert set(found.chunks()) == {D}


def test_the_order_of_the_lists_does_not_matter() -> None:
    one = read_manifest(raw(files=[file("a"), file("b")], folders=["c", "d"], units=[unit("x"), unit("y")]))
    other = read_manifest(raw(files=[file("b"), file("a")], folders=["d", "c"], units=[unit("y"), unit("x")]))
    assert one == other


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "/workspace/a",
        "..",
        "../a",
        "a/../../b",
        "a/..",
        "a//b",
        "a/",
        "./a",
        ".",
        "a/./b",
        "a\0b",
        ".actloop",
        ".actloop/journal",
        "/".join("a" * 25),
        "a" * 256,
        "ü" * 128,
        "a\udcff",
        None,
        1,
        ["a"],
    ],
)
def test_a_path_that_is_not_plainly_inside_the_workspace_is_refused(path: Any) -> None:
    for wrong in (raw(files=[file(path)]), raw(folders=[path]), raw(links=[[path, "a"]])):
        with pytest.raises(SnapshotRefused):
            read_manifest(wrong)


@pytest.mark.parametrize("path", ["a", "...", ".a", "a/.actloop/b", "/".join("a" * 24), "a" * 255, "~", "C:\\a", "-rf"])
def test_an_odd_path_inside_the_workspace_is_kept(path: str) -> None:
    assert read_manifest(raw(files=[file(path)])).files[0].path == path


OUT = {
    "absolute": [["a", "/etc"]],
    "one up from the top": [["a", ".."]],
    "two up from a folder": [["d/a", "../.."]],
    "up and in again": [["a", "../workspace/x"]],
    "behind a plain folder": [["a", "d/../../x"]],
    "behind a link that leads up": [["d/e/up", "../.."], ["a", "d/e/up/../x"]],
    "by a chain": [["d/a", "../b"], ["b", "d/c"], ["d/c", "../../x"]],
    "empty": [["a", ""]],
    "with NUL": [["a", "b\0c"]],
    "surrogate": [["a", "b\udcff"]],
    "long": [["a", "/".join("b" * 49)]],
    "below a link": [["a", "b"], ["a/c", "d"]],
    "twice": [["a", "b"], ["a", "c"]],
    "no pair": [["a"]],
}


@pytest.mark.parametrize("links", OUT.values(), ids=OUT.keys())
def test_a_link_that_could_lead_out_is_refused(links: list[list[str]]) -> None:
    with pytest.raises(SnapshotRefused):
        read_manifest(raw(links=links))


INSIDE = {
    "to a sibling": [["d/a", "b"]],
    "to the top": [["d/a", ".."]],
    "up and down": [["d/e/a", "../../x/./y"]],
    "to nothing": [["a", "nowhere"]],
    "to itself": [["a", "a"]],
    "in a circle": [["a", "b/x"], ["b", "a/y"]],
    "up behind a link, still inside": [["d/e/f/up", ".."], ["a", "d/e/f/up/../x"]],
}


@pytest.mark.parametrize("links", INSIDE.values(), ids=INSIDE.keys())
def test_a_link_that_stays_inside_is_kept(links: list[list[str]]) -> None:
    assert {tuple(link) for link in links} == set(read_manifest(raw(links=links)).links)


WRONG: dict[str, Any] = {
    "no record": [],
    "text": "manifest",
    "nothing": None,
    "unknown field": raw(extra=1),
    "unknown field without a name": {**raw(), "\ud800": 1},
    "point is a path": raw(point="../c1"),
    "point is a folder": raw(point=".."),
    "point is empty": raw(point=""),
    "point is long": raw(point="a" * 101),
    "point with line": raw(point="c1\n"),
    "parent is a path": raw(parent="a/b"),
    "no version": raw(python="three"),
    "huge version": raw(python="3.11." + "1" * 500),
    "size is NaN": raw(files=[file(size=math.nan)]),
    "size is infinite": raw(files=[file(size=math.inf)]),
    "size is huge": raw(files=[file(size=HUGE)]),
    "size is negative": raw(files=[file(size=-1)]),
    "size is text": raw(files=[file(size="1")]),
    "size is a truth value": raw(files=[file(size=True)]),
    "size without chunks": raw(files=[file(chunks=[])]),
    "more bytes than chunks hold": raw(files=[file(size=(1 << 20) + 1)]),
    "more chunks than bytes": raw(files=[file(chunks=[D] * 2)]),
    "time is huge": raw(files=[file(mtime_ns=1 << 63)]),
    "time is a fraction": raw(files=[file(mtime_ns=0.5)]),
    "set-user-id": raw(files=[file(mode=0o4755)]),
    "digest is a path": raw(files=[file(chunks=["../../points/c1"])]),
    "digest in capitals": raw(files=[file(chunks=[D.upper()])]),
    "digest with line": raw(files=[file(chunks=[D + "\n"])]),
    "digest is nested": raw(files=[file(chunks=nested(5000))]),
    "lists for ever": raw(units=nested(5000)),
    "too many files": raw(files=[file(str(number)) for number in range(rules.MAX_FILES + 1)]),
    "too many folders": raw(folders=[str(number) for number in range(rules.MAX_FILES + 1)]),
    "too many links": raw(links=[[str(number), "x"] for number in range(rules.MAX_LINKS + 1)]),
    "too many names": raw(units=[unit(f"{number}", f"{number}b") for number in range(rules.MAX_NAMES // 2 + 1)]),
    "too many names in one": raw(units=[unit(*map(str, range(rules.MAX_NAMES + 1)))]),
    "too many left out": raw(skipped=[{"name": "x", "type": "t", "why": "w"}] * (rules.MAX_NAMES + 1)),
    "too many chunks": raw(units=[unit(f"{n}", contents=[[D] * 999], sizes=[999]) for n in range(66)]),
    "too many contents": raw(units=[unit(f"{n}", contents=[[]] * 999, sizes=[0] * 999) for n in range(66)]),
    "variable twice": raw(units=[unit("x"), unit("y", "x")]),
    "variable twice in one": raw(units=[unit("x", "x")]),
    "variable without a name": raw(units=[unit("")]),
    "long name of a variable": raw(units=[unit("x" * 1001)]),
    "broken name of a variable": raw(units=[unit("\ud800")]),
    "unit of nothing": raw(units=[{"names": [], "contents": [[D]], "sizes": [1]}]),
    "unit without contents": raw(units=[unit(contents=[], sizes=[])]),
    "fewer sizes than contents": raw(units=[unit(sizes=[])]),
    "file twice": raw(files=[file("a"), file("a")]),
    "file and folder": raw(files=[file("a")], folders=["a"]),
    "file below a file": raw(files=[file("a"), file("a/b")]),
    "folder below a file": raw(files=[file("a")], folders=["a/b/c"]),
    "file below a link": raw(files=[file("a/b")], links=[["a", "c"]]),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_a_manifest_that_breaks_a_rule_is_refused_in_a_short_sentence(wrong: Any) -> None:
    with pytest.raises(SnapshotRefused, match="A snapshot breaks the rules at") as caught:
        read_manifest(wrong)
    assert len(str(caught.value)) < 600


def test_reasons_are_cut_and_cleaned_and_never_cost_the_snapshot() -> None:
    found = read_manifest(
        raw(
            skipped=[{"name": "x", "type": "T" * 9999, "why": "\ud800" + "w" * 9999}],
            skipped_files=[{"path": "\0/../" + "p" * 9999, "size": 0, "why": ""}],
        )
    )
    assert found.skipped[0].why == "?" + "w" * 199
    assert len(found.skipped[0].type) == len(found.skipped_files[0].path) == 200


@given(st.text(max_size=60) | st.lists(st.sampled_from(["..", ".", "", "a", ".actloop", "\0"])).map("/".join))
def test_a_path_is_kept_only_if_joining_it_stays_inside(path: str) -> None:
    try:
        read_manifest(raw(files=[file(path)]))
    except SnapshotRefused:
        return
    parts = path.split("/")
    assert not {"", ".", ".."} & set(parts)
    assert "\0" not in path
    assert parts[0] != ".actloop"


_PARTS = st.sampled_from(["..", "..", ".", "a", "b", "c"])
_PATHS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map("/".join)


@given(st.dictionaries(_PATHS, st.lists(_PARTS, min_size=1, max_size=5).map("/".join), max_size=5))
def test_links_that_are_kept_lead_nowhere_outside_on_a_real_filesystem(
    tmp_path_factory: pytest.TempPathFactory, links: dict[str, str]
) -> None:
    try:
        found = read_manifest(raw(links=[[*pair] for pair in links.items()]))
    except SnapshotRefused:
        return
    root = tmp_path_factory.mktemp("root").resolve()
    for path, target in found.links:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).symlink_to(target)
    for path, _ in found.links:
        try:
            real = (root / path).resolve(strict=True)
        except (OSError, RuntimeError):
            continue  # leads nowhere, or in a circle
        assert real == root or root in real.parents


@pytest.mark.parametrize("point", ["a", "cell-1_2.3", "...", "A" * 100])
def test_ids_of_points(point: str) -> None:
    assert is_point(point)


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@given(st.lists(_TEXTS, unique=True, max_size=3 * INLINE), st.lists(_PATHS, unique=True, max_size=9))
def test_what_is_packed_comes_back(names: list[str], paths: list[str]) -> None:
    whole = Manifest.model_validate(
        raw(
            units=[unit(name) for name in names],
            skipped=[{"name": name, "type": name, "why": "w"} for name in names[:5]],
            skipped_files=[{"path": path, "size": 7, "why": ""} for path in ["", *paths]],
            folders=[f"empty/{number}" for number in range(len(paths))],
        )
    )
    head, parts = pack(whole)
    assert bool(parts) == (len(names) + len(names[:5]) + 2 * len(paths) + 1 > INLINE)
    assert unpack(head, lambda digests: [parts[digest] for digest in digests]) == whole
