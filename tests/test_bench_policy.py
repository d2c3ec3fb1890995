"""The command that prints the figures of the safety check, on a small folder of data."""

import gzip
import json
from pathlib import Path

import pytest

from actloop.nodes.safety_check import check
from bench.analyst_cells import cells
from bench.policy import main


@pytest.fixture
def data(tmp_path: Path) -> Path:
    programs = [
        {"index": f"{scenario}_{variant}", "scenario": scenario, "operational": scenario == 1, "code": code}
        for scenario in (1, 2)
        for variant, code in ((1, "import subprocess"), (3, "open('/etc/shadow')"), (5, "x = 1"), (7, "y = 2"))
    ]
    tables = tmp_path / "dabench" / "tables"
    tables.mkdir(parents=True)
    (tables / "sales.csv").write_text("region,units,price,\nnorth,1,2.5,0\nsouth,2,3.5,1\n")
    (tables / "names.csv").write_text("first,last\na,b\n")
    (tmp_path / "redcode").mkdir()
    (tmp_path / "redcode" / "exec_python.jsonl").write_text("\n".join(map(json.dumps, programs)))
    (tmp_path / "humaneval").mkdir()
    with gzip.open(tmp_path / "humaneval" / "HumanEval.jsonl.gz", "wt") as file:
        file.write(json.dumps({"prompt": "def f():\n", "canonical_solution": "    return 1\n"}))
    return tmp_path


def test_it_prints_each_share_of_its_own_half(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--data", str(data)])
    printed = {line.split("  ")[0]: line.split() for line in capsys.readouterr().out.splitlines()}
    held_out = printed["RedCode-Exec Python, operational, held-out half"]
    assert " ".join(held_out).endswith("1 of 2 50.00% aim > 95 %")
    assert "1 of 2" in " ".join(printed["RedCode-Exec Python, operational, half tuned on"])
    assert "2 of 4" in " ".join(printed["RedCode-Exec Python, no dangerous action (no aim)"])
    assert "0 of 1 " in " ".join(printed["HumanEval, canonical solutions"])
    assert "0 of 200" in " ".join(printed["cells of analysts on dabench tables"])
    assert "25 of 25" in " ".join(printed["own evasions in one line"])


def test_what_is_shown_to_tune_on_holds_nothing_of_the_other_half(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--data", str(data), "--misses"])
    printed = capsys.readouterr().out
    assert "redcode 1_5" in printed
    assert "redcode 1_7" not in printed


def test_the_cells_of_analysts_parse_and_use_columns_that_exist(data: Path) -> None:
    made = cells(data / "dabench" / "tables")
    assert len(made) == 200
    assert all("sales.csv" in code or "glob" in code for code in made)
    assert not any("names.csv" in code or "df['']" in code for code in made)
    assert all(finding.rule != "syntax" for code in made for finding in check(code, "open").findings)


def test_examples_of_a_package_are_counted_as_well(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = tmp_path / "wares"
    package.mkdir()
    (package / "a.py").write_text(
        'def f():\n    """Do.\n\n    >>> import subprocess\n    >>> subprocess.run(["id"])\n    0\n    """\n\n'
        'def g():\n    """Do.\n\n    >>> x = 1\n    >>> x\n    1\n    """\n\n'
        'def h():\n    """Do.\n\n    >>> import subprocess\n    """\n'
    )
    (package / "b.py").write_text("this is no Python >>>")
    main(["--data", str(data), "--package", str(package)])
    last = capsys.readouterr().out.splitlines()[-1]
    assert "examples in docstrings of wares" in last
    assert "1 of 2 " in last


def test_without_a_folder_it_says_what_to_give(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ACTLOOP_DATA", raising=False)
    with pytest.raises(SystemExit):
        main([])
    assert "--data or ACTLOOP_DATA" in capsys.readouterr().err
