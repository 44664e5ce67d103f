"""A certificate authority for a test cluster: who is who is shown by client certificates."""

import base64
import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = dt.timedelta(days=7)


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


class Authority:
    """Signs the certificates of one cluster; its own key stays in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("gpucommons-tests", ())
        builder = _builder(self._name, self._name, self._key)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        builder = builder.add_extension(_CA_USAGE, True)
        own_id = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        builder = builder.add_extension(own_id, False)
        self._certificate = builder.sign(self._key, hashes.SHA256())
        self.certificate = folder / "ca.crt"
        self.certificate.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self, name: str, *, groups: Sequence[str] = (), addresses: Sequence[str] = ()
    ) -> Identity:
        """A certificate for a user (name, groups) or for a server (its addresses)."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(name, groups), self._name, key)
        usage = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usage), False)
        issuer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer_id, False)
        if addresses:
            names = x509.SubjectAlternativeName([_alternative(one) for one in addresses])
            builder = builder.add_extension(names, False)
        certificate = builder.sign(self._key, hashes.SHA256())
        stem = name.replace(":", "-").replace("/", "-")
        identity = Identity(
            certificate=self.folder / f"{stem}.crt", key=self.folder / f"{stem}.key"
        )
        identity.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        write_key(identity.key, key)
        return identity

    def kubeconfig(self, path: Path, *, server: str, identity: Identity) -> Path:
        """Write a kubeconfig that needs no other file."""
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "tests",
                    "cluster": {
                        "server": server,
                        "certificate-authority-data": _encoded(self.certificate),
                    },
                }
            ],
            "users": [
                {
                    "name": "user",
                    "user": {
                        "client-certificate-data": _encoded(identity.certificate),
                        "client-key-data": _encoded(identity.key),
                    },
                }
            ],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "user"}}],
            "current-context": "tests",
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(document))
        return path


def write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """Write a private key for its owner alone."""
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


def service_account_keys(folder: Path) -> Identity:
    """The key pair that signs and checks the tokens of service accounts."""
    key = ec.generate_private_key(ec.SECP256R1())
    pair = Identity(
        certificate=folder / "service-accounts.pub", key=folder / "service-accounts.key"
    )
    write_key(pair.key, key)
    pair.certificate.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return pair


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _name(common_name: str, groups: Sequence[str]) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    attributes += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name(attributes)


def _alternative(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + LIFETIME)
    )


_CA_USAGE = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)
