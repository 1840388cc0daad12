"""Finding the App in a user's file, and telling what is wrong with the file."""

from __future__ import annotations

import sys

import pytest

from odradek.pipeline.errors import PipelineError
from odradek.streams.api.loading import CannotLoad, NoSuchFile, load_app

HEAD = "from odradek.streams import App\n"


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")

    def to_file(text: str, name: str = "pipeline.py") -> str:
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return to_file


def test_the_only_app_is_found_also_under_two_names(write):
    assert load_app(write(HEAD + 'app = App("one")\nalias = app\n')).name == "one"


def test_one_of_several_is_named(write):
    path = write(HEAD + 'a = App("one")\nb = App("two")\n')
    assert load_app(f"{path}:b").name == "two"
    with pytest.raises(CannotLoad, match=r"has 2 Apps; say which: .*pipeline.py:a or .*pipeline.py:b"):
        load_app(path)
    with pytest.raises(CannotLoad, match="no App called 'c'; there are: a, b"):
        load_app(f"{path}:c")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1\n", r"has no App; .*app = App\(\"name\"\)"),
        (HEAD + "app = App(naem)\n", r"pipeline.py:2\n    app = App\(naem\)\nNameError: name 'naem' is not defined"),
        (HEAD + "import no_such_thing\n", r"pipeline.py:2\n    import no_such_thing\nModuleNotFoundError"),
        (HEAD + "app = = 1\n", r"pipeline.py:2\n    app = = 1\nSyntaxError: invalid syntax"),
    ],
)
def test_loading_error_names_the_line(write, text, told):
    with pytest.raises(CannotLoad, match=told):
        load_app(write(text))


def test_an_error_of_the_pipeline_speaks_for_itself(write):
    with pytest.raises(PipelineError, match=r"pipeline.py:2"):
        load_app(write(HEAD + 'app = App("no good name")\n'))


def test_a_missing_file(tmp_path):
    with pytest.raises(NoSuchFile, match="there is no file"):
        load_app(str(tmp_path / "nothing.py"))
    (tmp_path / "README.md").touch()
    with pytest.raises(NoSuchFile, match=r"README\.md is no Python file"):
        load_app(str(tmp_path / "README.md"))


def test_modules_beside_it_can_be_imported_and_annotations_resolve(write):
    write("LIMIT = 80\n", "speed_rules.py")
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\nfrom odradek.streams import App\n"
        "from speed_rules import LIMIT\n@dataclass\nclass Row:\n    a: int\n"
        'app = App(f"limit-{LIMIT}")\napp.stream("t", schema=Row).to("u")\n'
    )
    assert load_app(write(text)).name == "limit-80"
