"""The README as a package index shows it: without the picture and the links that only work inside the repository.

hatchling calls this when it builds a package (`pyproject.toml`). The index has none of our files: a relative link
or image would be broken there.
"""

from __future__ import annotations

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r"<picture>.*?</picture>\n*", re.DOTALL)
RELATIVE_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]+\)")


def for_index(readme: str) -> str:
    return RELATIVE_LINK.sub(r"\1", PICTURE.sub("", readme))


class IndexReadme(MetadataHookInterface):
    def update(self, metadata: dict[str, object]) -> None:
        readme = (Path(self.root) / "README.md").read_text()
        metadata["readme"] = {"content-type": "text/markdown", "text": for_index(readme)}
