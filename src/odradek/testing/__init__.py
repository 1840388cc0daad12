"""The embedded broker, the driver for pipelines under test, and the pytest plug-in: real parts inside a test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.testing.embedded import Embedded
    from odradek.testing.test_driver import TestDriver

__all__ = ["Embedded", "TestDriver"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 one of the classes above
    """pytest loads the plug-in in every run: broker and Spark are imported only when a test asks for them."""
    if name == "Embedded":
        from odradek.testing.embedded import Embedded

        return Embedded
    if name == "TestDriver":
        from odradek.spark.session import require_pyspark

        require_pyspark()
        from odradek.testing.test_driver import TestDriver

        return TestDriver
    raise AttributeError(f"module 'odradek.testing' has no attribute {name!r}")
