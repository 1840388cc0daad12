"""Which values of a config are secrets. Apache Kafka's Connect sends them as they are, so the console hides them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

MASK = "****"
# A reference such as ${file:secrets:password} is replaced by the service, and is no secret.
REFERENCE = re.compile(r"\$\{[^}]+\}")
_NAMES = re.compile(
    r"passw|secret|credential|jaas|api[._-]?key|access[._-]?key|private[._-]?key|token$|token[._-]value|authorization|"
    r"user[._-]info|passphrase",
    re.IGNORECASE,
)
_IN_URL = re.compile(r"://[^/\s:@]*:[^/\s@]+@|[?&;](?:password|sslpassword|secret|token)=", re.IGNORECASE)


def is_secret(name: str, value: str, declared: Collection[str] = ()) -> bool:
    """`declared` are the options of the type PASSWORD."""
    if not value or REFERENCE.fullmatch(value):
        return False
    return value == MASK or name in declared or _NAMES.search(name) is not None or _IN_URL.search(value) is not None


def masked(config: Mapping[str, str], declared: Collection[str] = ()) -> dict[str, str]:
    return {name: MASK if is_secret(name, value, declared) else value for name, value in config.items()}
