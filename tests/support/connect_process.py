"""A connect service without Spark as a process: `python -m support.connect_process BOOTSTRAP URL-FILE GROUP [PORT]`."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from odradek.connect.service.settings import Settings
from odradek.connect.serving import serving_on
from odradek.web.listening import listening
from support.connect_service import ThreadJobs

if __name__ == "__main__":
    bootstrap, file, group, *port = sys.argv[1:]
    settings = Settings(
        bootstrap=bootstrap,
        group=group,
        config_topic=f"{group}-configs",
        offset_topic=f"{group}-offsets",
        status_topic=f"{group}-status",
        linger_s=2.0,
    )
    with serving_on(listening("127.0.0.1", int(port[0]) if port else 0), settings, ThreadJobs) as (url, _):
        new = Path(file).with_suffix(".new")
        new.write_text(url)
        new.rename(file)
        threading.Event().wait()
