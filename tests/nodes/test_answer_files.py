import pytest

from actloop.nodes.answer_files import missing_files


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        ("I saved the table to growth.csv.", ["growth.csv"]),
        ("The plot was written to `out/plot.png` and the data to data.parquet.", ["out/plot.png", "data.parquet"]),
        ("Saved as **report.pdf**", ["report.pdf"]),
        ("Created /tmp/x/summary.xlsx for you", ["/tmp/x/summary.xlsx"]),
        ("Done. The figure is stored in figure.PNG! Enjoy.", ["figure.PNG"]),
        ("结果已保存到 结果.csv。", ["结果.csv"]),
        ("saved a.csv, saved a.csv", ["a.csv"]),
    ],
)
def test_a_file_that_is_said_to_be_made_and_is_not_there_is_named(answer: str, missing: list[str]) -> None:
    assert missing_files(answer, []) == missing


@pytest.mark.parametrize(
    "answer",
    [
        "I saved the table to growth.csv.",
        "I saved the table to ./growth.csv.",
        "I saved the table to /workspace/out/Growth.CSV",
        "The plot was exported to plot.png.",
    ],
)
def test_a_file_that_is_there_is_no_fault_however_its_path_is_written(answer: str) -> None:
    assert missing_files(answer, ["out/growth.csv", "plot.png"]) == []


@pytest.mark.parametrize(
    "answer",
    [
        "The answer is 42.5, from sales.csv.",
        "The file growth.csv was not saved.",
        "It could not be written to growth.csv.",
        "No file such as x.csv was created.",
        "If you want, I can save it as x.csv once it is created.",
        "The output of example.com/data.csv/view was created by numpy.array and pd.read_csv.",
        "See https://example.com/made/report.pdf, which they generated.",
        "It was generated with Node.js and written by e.g. Smith.",
        "Saved 3.5 million.",
        "",
    ],
)
def test_what_is_no_plain_claim_is_left_alone(answer: str) -> None:
    assert missing_files(answer, []) == []
