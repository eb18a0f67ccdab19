"""The schema registry: what is asked of it, its client's settings, its errors in one sentence.

Any registry with Confluent's API, by Confluent's own client.
Light on purpose: the emitter imports it too.
"""

import json
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from pipeline.errors import RegistryError, UsageError
from pipeline.kafka import read_settings
from schemas import Foreign, SchemaId, avro

USER_INFO: Final = "REDACTORY_REGISTRY_USER_INFO"
"""The environment variable that may hold `user:password`."""

AWAY: Final = "registry-away"
"""The code of an outage: nothing is wrong with what was asked."""

AVRO, JSON = "AVRO", "JSON"

_NO_SUBJECT, _NO_VERSION, _NO_SCHEMA = 40401, 40402, 40403
_CLIENT: Final[Mapping[str, Any]] = {"timeout": 10, "max.retries": 2, "retries.wait.ms": 500}
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Registered:
    """A version of a subject; `kind` is AVRO, JSON or PROTOBUF, `text` the schema as it stands."""

    subject: str
    version: int
    schema_id: int
    kind: str
    text: str


class Registry:
    """A registry, by a client of it; every call raises RegistryError if it does not answer."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def schema(self, schema_id: SchemaId) -> avro.Schema | Foreign | None:
        """The schema of this id, of Avro what reading needs; None: the registry has none."""
        client = self._client
        if isinstance(schema_id, int):
            found = self._ask(lambda: client.get_schema(schema_id), missing=(_NO_SCHEMA,))
        else:
            guid = str(schema_id)
            found = self._ask(lambda: client.get_schema_by_guid(guid), missing=(_NO_SCHEMA,))
        return None if found is None else self._readable(found)

    def check(self) -> None:
        """Raises RegistryError for an address or a login that is wrong; an outage is none."""
        try:
            self._ask(self._client.get_schema_types)
        except RegistryError as error:
            if error.code != AWAY:
                raise

    def subjects(self) -> list[str]:
        """The names of all subjects."""
        found: list[str] | None = self._ask(self._client.get_subjects)
        return sorted(found or ())

    def versions(self, subject: str) -> list[int]:
        """The numbers of a subject's versions; empty if there is no such subject."""
        client = self._client
        found: list[int] | None = self._ask(
            lambda: client.get_versions(subject), missing=(_NO_SUBJECT,)
        )
        return sorted(found or ())

    def version(self, subject: str, version: int | None = None) -> Registered | None:
        """A version of a subject (None: the latest), if there is one."""
        client = self._client
        missing = (_NO_SUBJECT, _NO_VERSION)
        if version is None:
            client.clear_latest_caches()
            found = self._ask(lambda: client.get_latest_version(subject), missing=missing)
        else:
            found = self._ask(lambda: client.get_version(subject, version), missing=missing)
        return found and Registered(
            subject,
            found.version,
            found.schema_id,
            found.schema.schema_type or AVRO,
            found.schema.schema_str,
        )

    def is_compatible(self, subject: str, text: str, kind: str) -> bool:
        """Whether the subject's own rule lets this be its next version; a new subject has none."""
        client, schema = self._client, _schema(text, kind)
        found: bool | None = self._ask(
            lambda: client.test_compatibility_all_versions(subject, schema),
            missing=(_NO_SUBJECT,),
        )
        return found is None or found

    def register(self, subject: str, text: str, kind: str) -> int:
        """Makes this the subject's next version, unless it is one already; returns its id."""
        client, schema = self._client, _schema(text, kind)
        schema_id: int | None = self._ask(lambda: client.register_schema(subject, schema))
        assert schema_id is not None
        return schema_id

    def _readable(self, found: Any) -> avro.Schema | Foreign:
        if found.schema_type not in (None, AVRO):
            return Foreign.JSON if found.schema_type == JSON else Foreign.OTHER
        try:
            schema: avro.Schema = avro.essential(json.loads(found.schema_str))
        except (ValueError, RecursionError):
            return Foreign.OTHER
        return schema

    def _ask(self, question: Callable[[], _T], missing: tuple[int, ...] = ()) -> _T | None:
        """The registry's answer; None for its word that what is asked for is not there.

        That word is one of its own error codes: a mere 404 also comes from a wrong address.
        """
        from confluent_kafka.schema_registry.error import (  # type: ignore[attr-defined]
            OAuthTokenError,  # newer than its stubs
            SchemaRegistryError,
        )

        try:
            return question()
        except SchemaRegistryError as error:
            if error.http_status_code == 404 and error.error_code in missing:
                return None
            raise _refusal(error.http_status_code) from None
        except OAuthTokenError:
            raise _error(_LOGIN) from None
        except (LookupError, TypeError, ValueError, AttributeError):
            raise _error(_NONE) from None  # the answer is another program's
        except Exception as error:  # the HTTP library's: its words may quote credentials
            raise _error(_TLS if _is_about_trust(error) else _NO_ANSWER) from None


def open_registry(url: str, config_file: Path | None = None) -> Registry:
    """A registry by its address (`http(s)://…[,…]`); it is not asked anything yet.

    `config_file` holds Confluent's names (`basic.auth.user.info`, `ssl.*`, `bearer.auth.*`), in the
    forms of `read_settings`; the variable `USER_INFO` wins over it.  Raises UsageError for settings
    that the client refuses; never shows a value.
    """
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ModuleNotFoundError:
        raise _error(_NO_CLIENT) from None
    for each in url.split(","):
        _check(each.strip())
    settings = read_settings(config_file) if config_file else {}
    if USER_INFO in os.environ:
        settings["basic.auth.user.info"] = os.environ[USER_INFO]
    try:
        return Registry(SchemaRegistryClient({**_CLIENT, **settings, "url": url}))
    except (ValueError, TypeError, OSError) as error:
        name = next((name for name in settings if name in str(error)), None)
        about = f"the setting `{name}`" if name else "the settings"
        raise UsageError(
            f"the registry's client does not accept {about}",
            code="registry-config",
            hint="settings have Confluent's names, such as basic.auth.user.info, ssl.ca.location",
        ) from None


def _check(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_address = False
    if not is_address or parts.username or parts.password:
        raise UsageError(
            "the registry's address is no http(s)://host[:port][/path] without user and password",
            code="registry-url",
            hint=f"put user:password into {USER_INFO}, or basic.auth.user.info of the config file",
        )


_CHECK: Final = "check --registry; with Apicurio it ends in /apis/ccompat/v7"
_CHECK_LOGIN: Final = f"check {USER_INFO}, or the settings in --registry-config"

_NO_ANSWER = (AWAY, "the schema registry does not answer", _CHECK)
_LOGIN = ("registry-login", "the schema registry refuses the login", _CHECK_LOGIN)
_TLS = (
    "registry-tls",
    "the schema registry's certificate is not one that is trusted",
    "check ssl.ca.location in --registry-config",
)
_NONE = ("registry-missing", "there is no schema registry at this address", _CHECK)
_INCOMPATIBLE = (
    "schema-refused",
    "the registry refuses the schema: its rule for the subject does not allow it",
    "redactory schemas check says what is wrong",
)
_INVALID = (
    "schema-invalid",
    "the registry takes it for no schema",
    "check the file (Apicurio wants $schema in a JSON Schema)",
)
_NO_CLIENT = (
    "registry-client",
    "the schema registry's client is not installed",
    "pip install 'redactory[registry]'",
)
_OTHER = ("registry-refused", "the schema registry refused the request", _CHECK)


def _refusal(status: int) -> RegistryError:
    if status in (408, 429) or status >= 500:
        return _error(_NO_ANSWER)
    known = {401: _LOGIN, 403: _LOGIN, 404: _NONE, 405: _NONE, 409: _INCOMPATIBLE, 422: _INVALID}
    return _error(known.get(status, _OTHER))


def _error(what: tuple[str, str, str]) -> RegistryError:
    code, message, hint = what
    return RegistryError(message, code=code, hint=hint)


def _is_about_trust(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _schema(text: str, kind: str) -> Any:
    from confluent_kafka.schema_registry import Schema

    return Schema(text, kind)
