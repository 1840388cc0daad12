"""The pages of the console, in the order of the navigation."""

from __future__ import annotations

from odradek.console.frame import Page
from odradek.console.pages import groups, overview

PAGES: tuple[Page, ...] = (overview.PAGE, groups.PAGE)
