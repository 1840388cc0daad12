"""Shell completion of topics and groups. Completes nothing if the cluster does not answer within half a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

PATIENCE_S = 0.5
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


def topic_argument(name: str = "topic", *, many: bool = False, required: bool = True) -> Callable[[F], F]:
    return click.argument(name, nargs=-1 if many else 1, required=required, shell_complete=complete_topics)


def group_argument(name: str = "group", *, many: bool = False, required: bool = True) -> Callable[[F], F]:
    return click.argument(name, nargs=-1 if many else 1, required=required, shell_complete=complete_groups)


def complete_topics(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    def names(admin: Any) -> list[str]:  # noqa: ANN401, librdkafka is imported only when asked
        return list(admin.list_topics(timeout=PATIENCE_S).topics)

    return _begun(incomplete, _asked(ctx, names))


def complete_groups(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    def names(admin: Any) -> list[str]:  # noqa: ANN401
        listed = admin.list_consumer_groups(request_timeout=PATIENCE_S).result(PATIENCE_S)
        return [group.group_id for group in listed.valid]

    return _begun(incomplete, _asked(ctx, names))


def _begun(incomplete: str, names: list[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete) and (incomplete or not name.startswith("__")))


def _asked(ctx: click.Context, names: Callable[[Any], list[str]]) -> list[str]:
    from confluent_kafka.admin import AdminClient

    from odradek.cli.remote import silent_logger

    bootstrap = ctx.params.get("bootstrap") or DEFAULT_BOOTSTRAP
    try:
        return names(AdminClient({"bootstrap.servers": bootstrap}, logger=silent_logger()))
    except Exception:  # noqa: BLE001, the user is typing: no completion is better than an error
        return []
