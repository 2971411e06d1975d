"""The `watch` block of a source: what Freshline looks at to notice new data by itself (docs/sources.md)."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from freshline.credentials import HIDDEN
from freshline.definitions import names
from freshline.definitions.schema.base import AsTuple, FieldError, Model
from freshline.model.json import Json
from freshline.suggest import suggestion

SHORTEST_EVERY_MS = 1_000
LONGEST_TIMEOUT_MS = 600_000
DEFAULT_MS = 30_000
MOST_PROPERTIES = 100
QUERIES = ("SELECT", "WITH", "VALUES")  # how the query of a watch begins
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_URL = re.compile(r"https?://[^\s/]+\S*")
_POINTER = re.compile(r"(/([^~]|~[01])*)?")

# Settings of librdkafka by which a client connects and logs in. Others are refused: some start programs or load
# libraries (sasl.kerberos.kinit.cmd, plugin.library.paths) in the process that has the database's password.
KAFKA_SETTINGS = frozenset(
    {
        "broker.address.family",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "enable.ssl.certificate.verification",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.username",
        "security.protocol",
        "socket.keepalive.enable",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.cipher.suites",
        "ssl.curves.list",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.sigalgs.list",
    }
)
# Headers of HTTP that the watcher sets itself, or that change what a request is.
OWN_HEADERS = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "range",
        "te",
        "transfer-encoding",
        "upgrade",
    }
)
KAFKA_SECRETS = frozenset({"sasl.oauthbearer.client.secret", "sasl.password", "ssl.key.password", "ssl.key.pem"})

PathText = Annotated[str, Field(min_length=1, max_length=4_096)]


_ALLOWED_SETTINGS = "allowed are those by which a client connects and logs in: docs/sources.md lists them"


def _file_name(value: str) -> str:
    if value in {".", ".."} or re.search(r"[/*?\[\]{}\\\x00-\x1f]", value):
        raise ValueError(
            f"{value[:80]!r} is not a file name; allowed is a name without '/' and patterns, as in _SUCCESS"
        )
    return value


def _url(value: str) -> str:
    if not _URL.fullmatch(value):
        # Without the value: it may hold a password.
        raise ValueError("'http' is not a URL; allowed are addresses that begin with https:// or http://")
    return value


def _pointer(value: str) -> str:
    if not _POINTER.fullmatch(value):
        raise ValueError(f"{value[:80]!r} is not a JSON pointer; allowed are texts such as /version and /items/0/id")
    return value


def _topic(value: str) -> str:
    if not _TOPIC.fullmatch(value):
        raise ValueError(f"{value[:80]!r} is not a topic; allowed are 1-249 letters, digits and . _ -")
    return value


def _noun(data: object) -> str:
    return "its value" if isinstance(data, str) else f"a {type(data).__name__}"


def _not_ours(value: str) -> str:
    """Reject Freshline's own credentials: a definition decides where its variables are sent."""
    if value.startswith("FRESHLINE_") or value in HIDDEN:
        raise ValueError(f"the variable {value} belongs to Freshline itself; give the source a variable of its own")
    return value


def _header(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", value) or value.lower() in OWN_HEADERS:
        raise ValueError(
            f"{value[:80]!r} is not a header that a watch may set; allowed are names such as Authorization, X-Api-Key"
        )
    return value


HeaderName = Annotated[str, AfterValidator(_header)]


class Variable(Model):
    """A value from an environment variable of the process that looks. Definitions hold only its name."""

    env: Annotated[str, AfterValidator(names.secret), AfterValidator(_not_ours)] = Field(
        description="The name of an environment variable of the process that looks."
    )

    @model_validator(mode="before")
    @classmethod
    def _never_the_value(cls, data: Any) -> Any:
        """Reject a value in the place of a name without showing it: it may be a password."""
        if not isinstance(data, dict | Variable):
            raise ValueError(f"takes the name of an environment variable, as in {{env: NAME}}, and not {_noun(data)}")  # noqa: TRY004
        return data


class Watch(Model):
    """The fields of every kind. `kind`: the field that names it."""

    kind: ClassVar[str]
    tag: ClassVar[str]  # of the union; unlike `kind` it cannot be a field of the user's document

    every_ms: Annotated[int, Field(ge=SHORTEST_EVERY_MS, le=7 * 86_400_000)] = Field(
        default=DEFAULT_MS, description="The pause between two looks; at least 1s, default 30s."
    )
    timeout_ms: Annotated[int, Field(ge=100, le=LONGEST_TIMEOUT_MS)] = Field(
        default=DEFAULT_MS, description="A look that takes longer has failed; at most 10m, default 30s."
    )

    def __init_subclass__(cls, *, kind: str, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.kind, cls.tag = kind, f"watch:{kind}"


class FilesWatch(Watch, kind="files"):
    """Files in a directory, an object store or HDFS: each new file is a delivery, or all of them are one version.

    Of a source with partitions those of each partition are one version.
    """

    files: PathText = Field(
        description="A path or a pattern with * ? [..] and **, as in drop/*.csv; also a URL. {partitionKey} in it is "
        "the key of the partition to which a file belongs, percent-encoded."
    )
    settle_ms: Annotated[int, Field(ge=0, le=86_400_000)] | None = Field(
        default=None, description="A file is complete when it did not change for this long."
    )
    marker: Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_file_name)] | None = Field(
        default=None, description="Files are complete when their directory has a file of this name, as in _SUCCESS."
    )
    existing: Literal["deliver", "ignore"] = Field(
        default="deliver", description="What happens to files that exist at the first look."
    )


class DeltaWatch(Watch, kind="delta"):
    """The version of a Delta table that another system writes."""

    delta: PathText = Field(description="The directory or URL of the table.")


class IcebergWatch(Watch, kind="iceberg"):
    """The current snapshot of an Iceberg table."""

    iceberg: Annotated[str, Field(min_length=3, max_length=1_000)] = Field(
        description="The table with its namespace, as in sales.orders."
    )
    catalog: Variable = Field(description="The variable with the address of the catalog.")


class SqlWatch(Watch, kind="sql"):
    """A watermark that a query returns."""

    sql: Annotated[str, Field(min_length=1, max_length=100_000)] = Field(
        description="A query that returns one row with one column, as in SELECT max(updated_at) FROM orders."
    )
    url: Variable = Field(description="The variable with the SQLAlchemy URL of the database.")


class HttpWatch(Watch, kind="http"):
    """The ETag, Last-Modified, a JSON value or a digest of a URL."""

    http: Annotated[str, Field(max_length=2_000), AfterValidator(_url)] = Field(description="The URL to request.")
    pointer: Annotated[str, Field(max_length=1_000), AfterValidator(_pointer)] | None = Field(
        default=None, description="A JSON pointer (RFC 6901) to the version in a JSON body, as in /version."
    )
    headers: Annotated[dict[HeaderName, Variable], Field(max_length=20)] = Field(
        default={}, description="Headers of the request, each from a variable, as in Authorization: {env: TOKEN}."
    )


class KafkaWatch(Watch, kind="kafka"):
    """The offsets of a Kafka topic."""

    kafka: Annotated[str, AfterValidator(_topic)] = Field(description="The topic.")
    servers: Annotated[str, Field(min_length=1, max_length=2_000)] = Field(
        description="The first brokers to connect to, as in host:9092,other:9092."
    )
    properties: Annotated[dict[str, str], Field(max_length=MOST_PROPERTIES)] = Field(
        default={}, description="Settings of the client, as in security.protocol: SASL_SSL."
    )
    secrets: Annotated[dict[str, Variable], Field(max_length=MOST_PROPERTIES)] = Field(
        default={}, description="Settings whose values are secret, each from a variable."
    )
    existing: Literal["deliver", "ignore"] = Field(
        default="deliver", description="What happens to records that exist at the first look."
    )

    @model_validator(mode="after")
    def _known_settings(self) -> Self:
        """Reject settings that are not about the connection, and secrets in the wrong place without showing them."""
        allowed = KAFKA_SETTINGS | KAFKA_SECRETS
        for field, given in (("properties", self.properties), ("secrets", self.secrets)):
            for name in given:
                if name not in allowed:
                    near = suggestion(name, allowed)
                    raise FieldError(field, f"the setting {name[:80]!r} is not allowed; {_ALLOWED_SETTINGS}{near}")
        if wrong := sorted(KAFKA_SECRETS & set(self.properties)):
            raise FieldError(
                "properties", f"{wrong[0]} is secret; name its variable, as in secrets: {{{wrong[0]}: {{env: NAME}}}}"
            )
        if both := sorted(set(self.properties) & set(self.secrets)):
            raise FieldError("secrets", f"{both[0]} is in 'properties' too; remove one of them")
        return self


class PythonWatch(Watch, kind="python"):
    """A function of the project that returns a version or deliveries. A worker calls it."""

    python: Annotated[str, AfterValidator(names.entrypoint)] = Field(
        description="The entry point, as in jobs.landing:latest."
    )
    secrets: Annotated[tuple[Annotated[str, AfterValidator(names.secret)], ...], AsTuple, Field(max_length=100)] = (
        Field((), description="Names of environment variables of the worker; values are never stored or shown.")
    )


KINDS: dict[str, type[Watch]] = {
    one.kind: one for one in (FilesWatch, DeltaWatch, IcebergWatch, SqlWatch, HttpWatch, KafkaWatch, PythonWatch)
}
EXAMPLE = "watch: {files: 'drop/*.csv', every: 30s}"


def _one_kind(value: Any) -> Any:
    """Reject a block without a kind, or with several, before its fields are checked."""
    if isinstance(value, Watch) or not isinstance(value, dict):
        return value
    given = [kind for kind in KINDS if kind in value]
    if len(given) > 1:
        raise ValueError(f"'watch' has {len(given)} kinds: {', '.join(given)}; keep one of them")
    if not given:
        known = ", ".join(KINDS)
        near = next(filter(None, (suggestion(str(key), KINDS) for key in value)), "")
        raise ValueError(f"'watch' does not say what to look at; allowed is one of {known}, as in {EXAMPLE}{near}")
    return value


def _tag(value: Any) -> str:
    if isinstance(value, Watch):
        return value.tag
    given = [kind for kind in KINDS if isinstance(value, dict) and kind in value]
    return KINDS[given[0]].tag if given else FilesWatch.tag  # which rejects what is not a block


AnyWatch = Annotated[
    Annotated[FilesWatch, Tag(FilesWatch.tag)]
    | Annotated[DeltaWatch, Tag(DeltaWatch.tag)]
    | Annotated[IcebergWatch, Tag(IcebergWatch.tag)]
    | Annotated[SqlWatch, Tag(SqlWatch.tag)]
    | Annotated[HttpWatch, Tag(HttpWatch.tag)]
    | Annotated[KafkaWatch, Tag(KafkaWatch.tag)]
    | Annotated[PythonWatch, Tag(PythonWatch.tag)],
    Discriminator(_tag),
    BeforeValidator(_one_kind),
]


def watch_json(watch: Watch) -> Json:
    """Return the declared fields in camelCase, durations in milliseconds. `watch_of` reads them."""
    return watch.model_dump(mode="json", by_alias=True, exclude_unset=True)


def watch_of(data: Json) -> Watch:
    """Return the block that `watch_json` wrote."""
    return next(model for kind, model in KINDS.items() if kind in data).model_validate(data)
