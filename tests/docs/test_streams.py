"""The parts of the Streams pages that need no Spark: descriptions of applications, errors, links."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from docs.pages import DOCS, KINDS, ROOT, STREAMS, Block, application, blocks, import_path_restored
from odradek.pipeline.errors import StreamsError
from odradek.streams.api.loading import load_app

pytest.importorskip("pyspark")
pytest.importorskip("fastavro")

PAGES = [*STREAMS, DOCS / "spark.md"]
FIRST = ROOT / "examples" / "streams_first.py"
ERRORS = DOCS / "streams" / "errors.md"


@pytest.fixture(autouse=True)
def nothing_stays_importable():
    with import_path_restored():
        yield


def page_id(page: Path) -> str:
    return page.stem


@pytest.mark.parametrize("page", STREAMS, ids=page_id)
def test_python_of_a_page_is_a_valid_application(page: Path, tmp_path: Path):
    assert "Query 0" in load_app(str(application(page, tmp_path))).describe()


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_block_of_a_page_has_a_tested_kind(page: Path):
    assert {block.kind for block in blocks(page)} <= KINDS
    first = blocks(page)[0]
    assert first.kind in ("python", "sh"), "a page must begin with something to run"


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_and_anchors_exist(page: Path):
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        file, _, anchor = target.partition("#")
        linked = (page.parent / file) if file else page
        assert linked.exists(), target
        if anchor:
            assert anchor in [slug(title) for title in re.findall(r"^#+ (.+)$", linked.read_text(), re.MULTILINE)]


def slug(title: str) -> str:
    """The anchor that GitHub makes from a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def test_first_page_links_to_every_other_page():
    listed = set(re.findall(r"\]\((streams/[^)#]+)\)", STREAMS[0].read_text()))
    assert {f"streams/{page.name}" for page in STREAMS[1:]} == listed


@pytest.mark.parametrize("page", [STREAMS[0], ROOT / "README.md"], ids=page_id)
def test_first_application_of_a_page_equals_the_example(page: Path):
    applications = [block.text for block in blocks(page, "python") if "odradek.streams" in block.text]
    assert applications[0] == FIRST.read_text()


def test_description_of_the_first_application_matches_the_page():
    described = load_app(str(FIRST)).describe() + "\n"
    assert Block("text", described) in blocks(STREAMS[0])


def refusals() -> list[tuple[Block, Block]]:
    found = blocks(ERRORS)
    return [(one, following) for one, following in itertools.pairwise(found) if one.kind == "python raises"]


@pytest.mark.parametrize(("wrong", "told"), refusals(), ids=lambda block: block.text.splitlines()[0])
def test_error_message_matches_the_page(wrong: Block, told: Block, tmp_path: Path):
    file = application(ERRORS, tmp_path, wrong, name="mistakes")
    with pytest.raises(StreamsError) as refused:
        load_app(str(file))
    assert str(refused.value).replace(f"{tmp_path}/", "") + "\n" == told.text
