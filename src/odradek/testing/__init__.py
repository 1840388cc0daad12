"""Test tools: the embedded broker, a driver for pipelines under test, and the pytest plug-in. All use real parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.testing.embedded import Embedded
    from odradek.testing.test_driver import TestDriver

__all__ = ["Embedded", "TestDriver"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 one of the classes above
    """Imports lazily: pytest loads the plug-in in every run, and many tests need neither broker nor Spark."""
    if name == "Embedded":
        from odradek.testing.embedded import Embedded

        return Embedded
    if name == "TestDriver":
        from odradek.spark.session import require_pyspark

        require_pyspark()
        from odradek.testing.test_driver import TestDriver

        return TestDriver
    raise AttributeError(f"module 'odradek.testing' has no attribute {name!r}")
