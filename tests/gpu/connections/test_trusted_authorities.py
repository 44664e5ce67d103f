from __future__ import annotations

import ssl

import pytest

from gpucommons.gpu.connections.trusted_authorities import trusted_at


@pytest.mark.parametrize("url", ["https://hub.example/hub/api", "HTTPS://hub.example"])
def test_a_server_that_shows_a_certificate_is_checked_by_those_whom_all_trust(url: str) -> None:
    trusted = trusted_at(url)

    assert trusted.cert_store_stats()["x509_ca"] > 0
    assert (trusted.verify_mode, trusted.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert trusted_at("https://another.example") is trusted


@pytest.mark.parametrize("url", ["http://127.0.0.1:8081/hub/api", "unix:/run/api.sock"])
def test_where_none_is_expected_none_is_read_and_none_would_be_believed(url: str) -> None:
    trusted = trusted_at(url)

    assert trusted.cert_store_stats()["x509_ca"] == 0
    assert (trusted.verify_mode, trusted.check_hostname) == (ssl.CERT_REQUIRED, True)
