"""Translates the key stores, trust stores and JAAS configs of Java's clients to librdkafka's configs.

librdkafka reads PEM and, for the client's own key, PKCS12. It reads no JKS, and no trusted certificates from PKCS12.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from odradek.client.refused import RefusedConfig

NAMES = frozenset(
    {
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
        "ssl.truststore.certificates",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "sasl.jaas.config",
    }
)

TYPE_BY_SUFFIX = {"pem": "PEM", "crt": "PEM", "cer": "PEM", "p12": "PKCS12", "pfx": "PKCS12", "pkcs12": "PKCS12"}

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"

JAAS = re.compile(
    r"\s*(?P<module>[\w.]+)\s+(?P<flag>required|requisite|sufficient|optional)\b(?P<options>.*);\s*", re.DOTALL
)
JAAS_OPTION = re.compile(r"""\s+([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';]+))""")


def security_config(java: Mapping[str, str]) -> dict[str, str]:
    """The configs of NAMES in librdkafka's names."""
    return _trusted(java) | _own_key(java) | (_login(java) if "sasl.jaas.config" in java else {})


def _trusted(java: Mapping[str, str]) -> dict[str, str]:
    config = {}
    if "ssl.truststore.certificates" in java:
        config["ssl.ca.pem"] = java["ssl.truststore.certificates"]
    if "ssl.truststore.location" in java:
        path = java["ssl.truststore.location"]
        kind = _store_type(java, "ssl.truststore")
        if kind != "PEM":
            raise RefusedConfig(
                "ssl.truststore.location",
                f"librdkafka reads trusted certificates as PEM, not out of {kind}",
                f"ssl.ca.location with a file made by {_as_pkcs12(path, kind)}"
                f"openssl pkcs12 -in {_pkcs12_name(path, kind)} -nokeys -out ca.pem",
            )
        config["ssl.ca.location"] = path
    if "ssl.truststore.password" in java:
        raise RefusedConfig("ssl.truststore.password", "PEM certificates have no password", "leave it out")
    return config


def _own_key(java: Mapping[str, str]) -> dict[str, str]:
    config = {}
    if "ssl.keystore.certificate.chain" in java:
        config["ssl.certificate.pem"] = java["ssl.keystore.certificate.chain"]
    if "ssl.keystore.key" in java:
        config["ssl.key.pem"] = java["ssl.keystore.key"]
    if "ssl.keystore.location" not in java:
        if "ssl.keystore.password" in java:
            raise RefusedConfig(
                "ssl.keystore.password", "there is no ssl.keystore.location", "ssl.key.password, for a key"
            )
        return config
    path = java["ssl.keystore.location"]
    kind = _store_type(java, "ssl.keystore")
    password = java.get("ssl.keystore.password")
    if kind == "PKCS12":
        return {"ssl.keystore.location": path} | ({"ssl.keystore.password": password} if password is not None else {})
    if kind == "PEM":
        if password is not None:
            raise RefusedConfig("ssl.keystore.password", "a PEM key store has none", "ssl.key.password, for its key")
        return {"ssl.certificate.location": path, "ssl.key.location": path}
    raise RefusedConfig(
        "ssl.keystore.location",
        f"librdkafka cannot read {kind}",
        f"{_as_pkcs12(path, kind)}ssl.keystore.location={_pkcs12_name(path, kind)} with ssl.keystore.type=PKCS12",
    )


def _store_type(java: Mapping[str, str], store: str) -> str:
    suffix = java[f"{store}.location"].rpartition(".")[2].lower()
    return java.get(f"{store}.type", TYPE_BY_SUFFIX.get(suffix, "JKS")).upper()


def _as_pkcs12(path: str, kind: str) -> str:
    if kind == "PKCS12":
        return ""
    made = _pkcs12_name(path, kind)
    return f"keytool -importkeystore -srckeystore {path} -destkeystore {made} -deststoretype PKCS12, then "


def _pkcs12_name(path: str, kind: str) -> str:
    return path if kind == "PKCS12" else path.rpartition("/")[2].removesuffix(".jks") + ".p12"


def _login(java: Mapping[str, str]) -> dict[str, str]:
    jaas = JAAS.fullmatch(java["sasl.jaas.config"])
    if jaas is None:
        raise RefusedConfig(
            "sasl.jaas.config",
            'it is not of the form `<login module> required name="value" …;`',
            "sasl.username and sasl.password",
        )
    options = _jaas_options(jaas["options"])
    match jaas["module"]:
        case module if module == PLAIN:
            return {"sasl.mechanism": java.get("sasl.mechanism", "PLAIN")} | _name_and_password(options)
        case module if module == SCRAM:
            if "sasl.mechanism" not in java:
                raise RefusedConfig(
                    "sasl.jaas.config",
                    "the SCRAM mechanism is missing",
                    "add sasl.mechanism=SCRAM-SHA-512 or SCRAM-SHA-256",
                )
            return _name_and_password(options)
        case module if module == OAUTHBEARER:
            return {"sasl.mechanism": "OAUTHBEARER"} | _bearer(java, options)
        case module if module == KERBEROS:
            instead = "sasl.kerberos.service.name, sasl.kerberos.principal and sasl.kerberos.keytab"
            raise RefusedConfig("sasl.jaas.config", "librdkafka has separate configs for Kerberos", instead)
        case module:
            raise RefusedConfig(
                "sasl.jaas.config",
                f"{module} is Java code, which librdkafka cannot run",
                "sasl.mechanism PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER",
            )


def _jaas_options(text: str) -> dict[str, str]:
    options = {}
    position = 0
    for option in JAAS_OPTION.finditer(text):
        if option.start() != position:
            break
        position = option.end()
        quoted = option[2] if option[2] is not None else option[3]
        options[option[1]] = option[4] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
    if text[position:].strip():
        # The text may hold a password: it is not repeated.
        raise RefusedConfig(
            "sasl.jaas.config", f'an option after {", ".join(options) or "the flag"} is not name="value"'
        )
    return options


def _name_and_password(options: Mapping[str, str]) -> dict[str, str]:
    missing = {"username", "password"} - options.keys()
    if missing:
        raise RefusedConfig("sasl.jaas.config", f"it has no {' and no '.join(sorted(missing))}")
    return {"sasl.username": options["username"], "sasl.password": options["password"]}


def _bearer(java: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    extensions = ",".join(
        f"{name.removeprefix('extension_')}={value}" for name, value in options.items() if name.startswith("extension_")
    )
    config = {"sasl.oauthbearer.extensions": extensions} if extensions else {}
    if "sasl.oauthbearer.token.endpoint.url" in java:
        said = {"clientId": "client.id", "clientSecret": "client.secret", "scope": "scope"}
        return config | {f"sasl.oauthbearer.{ours}": options[name] for name, ours in said.items() if name in options}
    if "unsecuredLoginStringClaim_sub" in options:
        config["enable.sasl.oauthbearer.unsecure.jwt"] = "true"
        return config | {"sasl.oauthbearer.config": f"principal={options['unsecuredLoginStringClaim_sub']}"}
    raise RefusedConfig(
        "sasl.jaas.config",
        "OAUTHBEARER needs a source of tokens",
        "add sasl.oauthbearer.token.endpoint.url",
    )
