"""What a model is told after a failure, in a real interpreter."""

from typing import TYPE_CHECKING

from langchain_core.runnables import RunnableConfig

from actloop.testing import ScriptedModel

if TYPE_CHECKING:
    from tests.graph.conftest import Make


def cell(code: str) -> str:
    return f"```python\n{code}\n```"


TABLE = "import pandas as pd\nsales = pd.DataFrame({'region': ['n', 's'], 'amount_eur': [1, 2]})\nprint(sales)"


def test_close_names_columns_files_and_packages_are_offered(make: "Make", thread: RunnableConfig) -> None:
    model = ScriptedModel(
        [
            cell(TABLE),
            cell("saels"),
            cell("sales['ammount_eur']"),
            cell("open('out.txt', 'w').write('x')\nimport panda_s"),
            cell("open('Out.txt.')"),
            cell("print(3)"),
            "FINAL ANSWER: 3",
        ]
    )
    out = make(model, max_repairs=5).invoke({"task": "Compute the sum."}, thread)
    advice = [message.text for message in out["messages"] if message.text.startswith("The cell failed")]
    assert "(name, line 1)" in advice[0]
    assert "Do you mean sales?" in advice[0]
    assert "amount_eur" in advice[1]
    assert "Do you mean pandas?" in advice[2]
    assert "Do you mean out.txt?" in advice[3]
    assert out["status"] == "success"


def test_what_failed_before_is_listed_and_a_success_does_not_forget_it(make: "Make", thread: RunnableConfig) -> None:
    model = ScriptedModel([cell("1 / 0"), cell("print(1)"), cell("[][1]"), cell("print(2)"), "FINAL ANSWER: 2"])
    make(model).invoke({"task": "Compute it."}, thread)
    assert "Tried before" not in model.requests[1][-1].text
    told = model.requests[3][-1].text
    assert "- cell 1: ZeroDivisionError: division by zero in line 1, 1 / 0" in told
    assert "- cell 3" not in told


def test_the_second_time_the_same_code_comes_it_is_told_so(make: "Make", thread: RunnableConfig) -> None:
    model = ScriptedModel([cell("1 / 0"), cell("1 / 0"), cell("print(7)"), cell("print( 7 )"), "FINAL ANSWER: 7"])
    make(model).invoke({"task": "Compute it."}, thread)
    requests = ["\n".join(message.text for message in request[-2:]) for request in model.requests]
    assert "this very code before" not in requests[1]
    assert "it failed in this same way" in requests[2]
    assert "this very code before" not in requests[3]
    assert "it had this same result" in requests[4]


def test_code_that_cannot_run_is_told_its_kind_and_its_repetition(make: "Make", thread: RunnableConfig) -> None:
    model = ScriptedModel([cell("print(7"), cell("print(7"), cell("print(7)"), "FINAL ANSWER: 7"])
    out = make(model).invoke({"task": "Compute it."}, thread)
    assert "(syntax)" in model.requests[1][-1].text
    assert "this very code before" not in model.requests[1][-1].text
    assert "this very code before" in model.requests[2][-1].text
    assert (out["status"], out["turns"]) == ("success", 1)
