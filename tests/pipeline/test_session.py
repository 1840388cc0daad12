"""Requirements of a pipeline on its Spark session."""

from __future__ import annotations

import pytest

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.session import check_time_zone


def test_session_in_another_time_zone_is_refused():
    check_time_zone("Etc/UTC")
    with pytest.raises(PipelineError) as told:
        check_time_zone("Europe/Berlin")
    assert "the time zone of the Spark session is Europe/Berlin" in str(told.value)
    assert "test_session.py:" in str(told.value), "the line of the user's code"
    assert told.value.instead, "what to write instead"
