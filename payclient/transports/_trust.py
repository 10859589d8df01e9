"""Build an SSL context from the TLS options."""

import os
import ssl
from collections.abc import Mapping
from typing import NoReturn, cast

from payclient._shared.checks import unfit
from payclient._shared.escape import escape_unprintable
from payclient.errors import ConfigurationError


def make_context(options: Mapping[str, object]) -> ssl.SSLContext:
    given = [name for name in ("trust", "ca_file", "client_cert", "client_key") if options.get(name) is not None]
    context = options.get("ssl_context")
    if context is None:
        context = _trusting(options)
        _show_certificate(context, _path(options, "client_cert"), _path(options, "client_key"))
        # Not `SSLKEYLOGFILE`: with the secrets of TLS one reads the API key. Typeshed does not know None.
        context.keylog_filename = None  # type: ignore[assignment]
    elif not isinstance(context, ssl.SSLContext):
        raise unfit("ssl_context", "an ssl.SSLContext", type(context).__name__)
    elif given:
        message = f"pass ssl_context or {', '.join(given)}, not both"
        raise ConfigurationError(message)
    return context


def _trusting(options: Mapping[str, object]) -> ssl.SSLContext:
    trust, ca_file = options.get("trust"), _path(options, "ca_file")
    if trust not in (None, "system"):
        raise unfit("trust", "'system' or None", repr(trust))
    if trust is not None and ca_file is not None:
        raise ConfigurationError("pass ca_file or trust, not both")
    if trust is not None:
        return _of_the_system()
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # an SSLError is one
        problem = _problem(error)
    raise _unusable("ca_file", ca_file, problem)


def _of_the_system() -> ssl.SSLContext:
    try:
        import truststore  # noqa: PLC0415  an extra
    except ModuleNotFoundError:
        pass
    else:
        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    message = "trust='system' needs truststore; install it with: pip install 'payclient[truststore]'"
    raise ConfigurationError(message)


def _show_certificate(context: ssl.SSLContext, certificate: str | None, key: str | None) -> None:
    if certificate is None and key is None:
        return
    if certificate is None:
        raise ConfigurationError("client_key needs a client_cert")
    try:
        context.load_cert_chain(certificate, key, password=_refuse_to_ask)
    except OSError as error:  # an SSLError is one
        problem = _problem(error)
        is_key = key is not None and (isinstance(error, ssl.SSLError) or not os.access(key, os.R_OK))
    else:
        return
    if is_key and os.access(certificate, os.R_OK):
        raise _unusable("client_key", key, problem)
    raise _unusable("client_cert", certificate, problem)


def _refuse_to_ask() -> NoReturn:
    """Stand in for OpenSSL's question for a pass phrase; it would wait at the terminal."""
    message = "client_key is encrypted; decrypt it (openssl pkey), or load it into an ssl_context of your own"
    raise ConfigurationError(message)


def _path(options: Mapping[str, object], name: str) -> str | None:
    given = options.get(name)
    if given is None:
        return None
    if not isinstance(given, str | os.PathLike) or not os.fspath(given):
        raise unfit(name, "the path of a file", repr(options[name]))
    return os.fsdecode(cast("str | os.PathLike[str]", given))


def _problem(error: OSError) -> str:
    if not isinstance(error, ssl.SSLError):
        return f"cannot be read: {error.strerror}"
    if error.reason == "KEY_VALUES_MISMATCH":
        return "does not belong to client_cert"
    detail = f" ({error.reason.replace('_', ' ').lower()})" if error.reason else ""
    return f"is not a PEM file with what is expected in it{detail}"


def _unusable(name: str, path: str | None, problem: str) -> ConfigurationError:
    message = f"{name} {escape_unprintable(path or '')} {problem}"
    return ConfigurationError(message)
