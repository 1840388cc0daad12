"""`make screenshot`: run the demo in a terminal of its own and keep its screen as docs/demo.svg."""

from __future__ import annotations

import io
import os
import pty
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS, SECONDS = 118, 14
PROMPT = "$ make demo\n"


def main() -> None:
    captured = bytearray()

    def keep(descriptor: int) -> bytes:
        data = os.read(descriptor, 65536)
        captured.extend(data)
        return data

    scripts = Path(sys.executable).parent
    pty.spawn([str(scripts / "odradek"), "demo", "--duration", str(SECONDS)], keep)
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text.from_ansi(PROMPT + _last_screen(captured.decode())))
    svg = console.export_svg(title="Odradek")
    # The picture must not fetch anything: the viewer's own monospace font will do.
    svg = re.sub(r"@font-face \{.*?\}|<!--.*?-->", "", svg, flags=re.DOTALL).replace("Fira Code", "DejaVu Sans Mono")
    Path("docs/demo.svg").write_text("\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n")


def _last_screen(output: str) -> str:
    """What a terminal shows in the end: each redraw moves up n lines and wipes what is below."""
    lines: list[str] = []
    for piece in re.split(r"(\x1b\[\d+A\x1b\[J)", output.replace("\r\n", "\n")):
        if wipe := re.fullmatch(r"\x1b\[(\d+)A\x1b\[J", piece):
            del lines[-int(wipe[1]) :]
        else:
            lines += piece.split("\n")[:-1]
    return "\n".join(lines)


main()
