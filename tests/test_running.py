"""What the command line does around a run: where files are put, what the demo needs, and what a person sees."""

from pathlib import Path
from typing import Any

import pytest

from actloop.errors import InputError
from actloop.running import demo_order, save
from actloop.state import Artifact
from actloop.terminal import View
from actloop.testing import ScriptedModel


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A file that a run made, as the artifacts keep it."""
    path = tmp_path / "kept"
    path.write_bytes(b"content")
    return path


def artifact(name: str, path: Path) -> Artifact:
    return Artifact(name=name, path=str(path), media_type="text/plain", size=7, sha256="0" * 64, turn=1)


def test_files_are_saved_under_their_path_in_the_workspace(tmp_path: Path, kept: Path) -> None:
    out = tmp_path / "out"
    saved = save([artifact("table.csv", kept), artifact("deep/er/x.txt", kept)], out)
    assert saved == [out / "table.csv", out / "deep/er/x.txt"]
    assert all(path.read_bytes() == b"content" for path in saved)


@pytest.mark.parametrize("name", ["../up.txt", "/etc/up.txt", "a/../../up.txt", ".", "", "..", "link/up.txt"])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, kept: Path, name: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "outside").mkdir()
    (out / "link").symlink_to(tmp_path / "outside")
    before = sorted(path for path in tmp_path.rglob("*"))
    assert save([artifact(name, kept)], out) == []
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_names_lose_what_a_terminal_would_obey(tmp_path: Path, kept: Path) -> None:
    (path,) = save([artifact("a\x1b[2J\nb.txt", kept)], tmp_path / "out")
    assert path.name == "a_b.txt"


def test_a_persons_own_file_is_never_overwritten(tmp_path: Path, kept: Path) -> None:
    own = tmp_path / "sales.csv"
    own.write_text("mine")
    (path,) = save([artifact("sales.csv", kept)], tmp_path, [own])
    assert own.read_text() == "mine"
    assert path.name == "sales-changed.csv"
    assert path.read_bytes() == b"content"


def test_a_folder_in_a_files_place_is_named(tmp_path: Path, kept: Path) -> None:
    (tmp_path / "out" / "table.csv").mkdir(parents=True)
    with pytest.raises(InputError, match=r"table\.csv cannot be written.*--out"):
        save([artifact("table.csv", kept)], tmp_path / "out")


def test_without_a_model_the_demo_replays_and_says_so(tmp_path: Path) -> None:
    order = demo_order(tmp_path, None, None, None, False)
    assert isinstance(order.model, ScriptedModel)
    assert "recorded replies are replayed" in order.notice
    assert [path.name for path in order.files] == ["sales.csv"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("OPENAI_API_KEY", "k"), ("ACTLOOP_BASE_URL", "http://127.0.0.1:1/v1"), ("ACTLOOP_MODEL", "openai:gpt-5")],
)
def test_with_a_model_in_the_environment_the_demo_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    order = demo_order(tmp_path, None, None, None, False)
    assert (order.model, order.notice) == (None, "")


def shown(capsys: pytest.CaptureFixture[str], *events: dict[str, Any]) -> str:
    view = View()
    for event in events:
        view.show("custom", event)
    view.show("updates", {"execute": {"execution": {"result": None, "outcome": "ok", "wall_s": 1.0}}})
    return capsys.readouterr().err


def test_output_that_came_in_pieces_is_shown_as_one_and_a_progress_bar_line_by_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pieces = ["on", "e\ntw", "o", "\r10%", "\r20%\r\n"]
    text = shown(capsys, *({"kind": "stdout", "text": piece} for piece in pieces))
    assert text == "one\ntwo\n10%\n20%\n✓ exit 0, 1.00 s\n"


def test_an_escape_that_came_in_pieces_is_no_escape(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, *({"kind": "stdout", "text": piece} for piece in ("\x1b", "[2", "J", "\x1b]0;t", "\x07\n")))
    assert "\x1b" not in text
    assert "\x07" not in text


def test_markup_in_output_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert "[red]x[/red] :smile:" in shown(capsys, {"kind": "stdout", "text": "[red]x[/red] :smile:\n"})


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"status": "stuck", "summary": "No.", "turns": 1, "usage": {"model_calls": 1}}, "1 cell, 1 request, 2 tokens"),
        ({"status": "model_unavailable", "summary": "No.", "usage": {"model_calls": 0}}, "model_unavailable: No."),
        ({}, "unknown: "),
    ],
)
def test_the_end_says_how_and_what_it_cost(
    capsys: pytest.CaptureFixture[str], result: dict[str, Any], words: str
) -> None:
    if result.get("usage"):
        result["usage"] |= {"input_tokens": 1, "output_tokens": 1}
    View().end(result, [])
    out, err = capsys.readouterr()
    assert (out, err.strip().splitlines()[-1].strip()) == ("", words.strip())
