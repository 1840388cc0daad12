"""`odradek cluster`: the cluster as a whole."""

from __future__ import annotations

import click


@click.group("cluster")
def command() -> None:
    """The cluster as a whole."""


@command.command("id")
def new_id() -> None:
    """Print a random id, for a new cluster or a directory."""
    from odradek.base.ids import random_uuid, uuid_text
    from odradek.node.machine import machine_rng

    click.echo(uuid_text(random_uuid(machine_rng())))
