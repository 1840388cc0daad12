"""How Spark plans micro-batches, beside what the user says about it."""

from __future__ import annotations

import pytest

from odradek.streams.compile.topology.condensing import DONE
from odradek.streams.run.tuning import ALWAYS, EXCLUDED, LARGE, SMALL, explicit, settings

WHOLE_STAGE = "spark.sql.codegen.wholeStage"


def test_without_settings_of_the_user_small_and_large_micro_batches_have_ours():
    assert settings({}, is_large=False) == {**ALWAYS, **SMALL}
    assert settings({}, is_large=True) == {**ALWAYS, **LARGE}


def test_a_setting_of_the_user_is_left_as_it_is():
    found = settings({WHOLE_STAGE: "false", "spark.sql.exchange.reuse": "true"}, is_large=True)
    assert found.keys() == {*ALWAYS, *LARGE} - {WHOLE_STAGE, "spark.sql.exchange.reuse"}


def test_rules_that_the_user_leaves_out_stay_out():
    assert settings({EXCLUDED: "a.Rule, b.Rule"}, is_large=False)[EXCLUDED].split(",") == ["a.Rule", "b.Rule", *DONE]


@pytest.mark.spark
def test_only_what_was_set_counts_as_the_users(spark):
    session = spark.newSession()
    session.conf.set(WHOLE_STAGE, "true")
    assert explicit(session._jsparkSession) == {WHOLE_STAGE: "true"}
