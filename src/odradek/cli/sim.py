"""`odradek sim`: the broker under deterministic simulation."""

from __future__ import annotations

import click


@click.command("sim", add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """`odradek sim --seeds 0..100 --nodes 3` runs many simulations; `--seed 7 --nodes 3 --trace` traces one."""
    from odradek.sim.__main__ import main

    raise SystemExit(main(list(arguments)))
