"""Trust stores, key stores and JAAS configs, translated to librdkafka's configs."""

from __future__ import annotations

import pytest

from odradek.client.java_names import RefusedConfig, librdkafka_config
from odradek.client.java_security import KERBEROS, OAUTHBEARER, PLAIN, SCRAM

PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"

STORES = [
    ({"ssl.truststore.location": "/tls/ca.pem", "ssl.truststore.type": "PEM"}, {"ssl.ca.location": "/tls/ca.pem"}),
    ({"ssl.truststore.location": "/tls/ca.crt"}, {"ssl.ca.location": "/tls/ca.crt"}),
    ({"ssl.truststore.certificates": PEM, "ssl.truststore.type": "PEM"}, {"ssl.ca.pem": PEM}),
    (
        {"ssl.keystore.location": "/tls/me.pem", "ssl.keystore.type": "PEM", "ssl.key.password": "secret"},
        {
            "ssl.certificate.location": "/tls/me.pem",
            "ssl.key.location": "/tls/me.pem",
            "ssl.key.password": "secret",
        },
    ),
    (
        {"ssl.keystore.certificate.chain": PEM, "ssl.keystore.key": "key", "ssl.keystore.type": "PEM"},
        {"ssl.certificate.pem": PEM, "ssl.key.pem": "key"},
    ),
    (
        {"ssl.keystore.location": "/tls/me", "ssl.keystore.type": "pkcs12", "ssl.keystore.password": "secret"},
        {"ssl.keystore.location": "/tls/me", "ssl.keystore.password": "secret"},
    ),
    ({"ssl.keystore.location": "/tls/me.p12"}, {"ssl.keystore.location": "/tls/me.p12"}),
]

REFUSED_STORES = [
    (
        {"ssl.truststore.location": "/tls/trust.jks"},
        "as PEM, not out of JKS.*keytool .*openssl pkcs12 -in trust.p12 -nokeys",
    ),
    ({"ssl.truststore.location": "/tls/t.p12"}, "not out of PKCS12.*made by openssl pkcs12 -in /tls/t.p12 -nokeys"),
    ({"ssl.keystore.location": "/tls/me.jks"}, "cannot read JKS.*keytool .*then ssl.keystore.location=me.p12"),
    ({"ssl.keystore.location": "/tls/me"}, "cannot read JKS"),
    ({"ssl.truststore.password": "secret"}, "no password"),
    ({"ssl.keystore.key": "key", "ssl.keystore.password": "secret"}, "no ssl.keystore.location; .*ssl.key.password"),
    ({"ssl.keystore.location": "/tls/me.pem", "ssl.keystore.password": "x"}, "instead: ssl.key.password"),
]

LOGINS = [
    (
        {"sasl.jaas.config": f'{PLAIN} required username="alice" password="a; \\"b\\"=c";'},
        {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": 'a; "b"=c'},
    ),
    (
        {
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f"{SCRAM} required\n username='bob'\n password=secret ;",
        },
        {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "bob", "sasl.password": "secret"},
    ),
    (
        {
            "sasl.oauthbearer.token.endpoint.url": "https://sso/token",
            "sasl.jaas.config": f'{OAUTHBEARER} required clientId="me" clientSecret="s" scope=all extension_pool="p1";',
        },
        {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": "https://sso/token",
            "sasl.oauthbearer.client.id": "me",
            "sasl.oauthbearer.client.secret": "s",
            "sasl.oauthbearer.scope": "all",
            "sasl.oauthbearer.extensions": "pool=p1",
        },
    ),
    (
        {"sasl.jaas.config": f'{OAUTHBEARER} required unsecuredLoginStringClaim_sub="alice";'},
        {
            "sasl.mechanism": "OAUTHBEARER",
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": "principal=alice",
        },
    ),
]

REFUSED_LOGINS = [
    ({"sasl.jaas.config": "KafkaClient { }"}, "is not of the form"),
    ({"sasl.jaas.config": f"{PLAIN} required username=alice;"}, "has no password"),
    ({"sasl.jaas.config": f'{PLAIN} required username="alice" password hidden;'}, "option after username is not"),
    ({"sasl.jaas.config": f"{SCRAM} required username=a password=b;"}, "add sasl.mechanism=SCRAM-SHA-512"),
    ({"sasl.jaas.config": f"{OAUTHBEARER} required clientId=a;"}, "add sasl.oauthbearer.token.endpoint.url"),
    ({"sasl.jaas.config": f"{KERBEROS} required useKeyTab=true;"}, "sasl.kerberos.keytab"),
    ({"sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;"}, "IAMLoginModule is Java code"),
]


@pytest.mark.parametrize(("java", "ours"), STORES + LOGINS, ids=" ".join)
def test_translated(java: dict[str, str], ours: dict[str, str]) -> None:
    assert librdkafka_config(java) == ours


@pytest.mark.parametrize(("java", "told"), REFUSED_STORES + REFUSED_LOGINS)
def test_refused_with_the_substitute(java: dict[str, str], told: str) -> None:
    with pytest.raises(RefusedConfig, match=f"(?s){told}"):
        librdkafka_config(java)


def test_error_messages_never_contain_the_password() -> None:
    with pytest.raises(RefusedConfig) as refused:
        librdkafka_config({"sasl.jaas.config": f'{PLAIN} required username="alice" password hidden;'})
    assert "hidden" not in str(refused.value)
