"""What every connection of ours has in common."""

from __future__ import annotations

import ssl

from payclient.transports import _dial


async def test_no_key_log(monkeypatch, tmp_path):
    """`SSLKEYLOGFILE` is ignored."""
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    assert ssl.create_default_context().keylog_filename == str(tmp_path / "keys")
    assert _dial._system_trust.__wrapped__().keylog_filename is None
