"""Views for users: a materialised table, read by key in any process, without Spark.

Code of the project imports them from `odradek.streams.run.views`, where they live.
"""

from odradek.streams.run.views import NotCaughtUp, View, ViewStatus

__all__ = ["NotCaughtUp", "View", "ViewStatus"]
