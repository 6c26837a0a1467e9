"""Base of every message: a frozen value that can be encoded and decoded in each supported version."""

from __future__ import annotations

import functools
from typing import Any, ClassVar, Generic, Self, TypeVar, get_args

from featuregate.errors import LocalWireError
from featuregate.wire.codec import StructureCodec
from featuregate.wire.schema import Flexible


class Message(Flexible):
    """A request or a response, without its header.

    Subclasses are frozen dataclasses whose fields are the schema: see `featuregate.wire.schema`. A client encodes
    requests and decodes responses; the fake brokers of `featuregate.testing` do the reverse.
    """

    __slots__ = ()

    API_KEY: ClassVar[int]
    """Kafka's number for the API, such as 18."""
    NAME: ClassVar[str]
    """Kafka's name for the API, such as ``ApiVersions``."""
    VERSIONS: ClassVar[tuple[int, int]]
    """The lowest and the highest supported version, inclusive."""
    FLEXIBLE_FROM: ClassVar[int]
    """The first version with compact lengths and tagged fields (KIP-482); above ``VERSIONS`` where there is none."""

    def encode(self, version: int) -> bytes:
        """Encode the body; raises `LocalWireError` where this version cannot hold a value."""
        cls: Any = type(self)
        return _codec(cls, version).encode(self, self._title(version))

    @classmethod
    def decode(cls, version: int, body: bytes) -> Self:
        """Decode a complete body; raises `RemoteWireError` with the place that does not parse."""
        this: Any = cls
        message: Self = _codec(this, version).decode(body, cls._title(version))
        return message

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        """Whether this version has compact lengths and tagged fields; `LocalWireError` for an unsupported version."""
        lowest, highest = cls.VERSIONS
        if not lowest <= version <= highest:
            raise LocalWireError(f"{cls.__name__}: version {version} is not one of {lowest} to {highest}")
        return version >= cls.FLEXIBLE_FROM

    @classmethod
    def _title(cls, version: int) -> str:
        return f"{cls.__name__} v{version}"


@functools.cache
def _codec(cls: Any, version: int) -> StructureCodec:
    return StructureCodec(cls, version, flexible=cls.is_flexible(version))


class Response(Message):
    """A response of a broker. A subclass names its API: key, name, supported versions, first flexible version."""

    __slots__ = ()

    def __init_subclass__(
        cls, *, api: tuple[int, str] | None = None, versions: tuple[int, int] = (0, 0), flexible_from: int = 0
    ) -> None:
        """Keep what names the API. `structure` makes the class again, with what it has then."""
        super().__init_subclass__()
        if api is not None:
            (cls.API_KEY, cls.NAME), cls.VERSIONS, cls.FLEXIBLE_FROM = api, versions, flexible_from

    @classmethod
    def header_version(cls, version: int) -> int:
        """Return the version of the response header for this version of the body."""
        return int(cls.is_flexible(version))

    @classmethod
    def decode_answer(cls, asked: int, body: bytes) -> tuple[Self, int]:
        """Decode the response to a request of version ``asked``, and return it with the version of its body."""
        return cls.decode(asked, body), asked


R_co = TypeVar("R_co", bound=Response, covariant=True)


class Request(Message, Generic[R_co]):
    """A request of a client; the type argument is the class of its response, which has the key and the versions."""

    __slots__ = ()

    RESPONSE: type[R_co]
    """The class of the response. Never an instance attribute: a ClassVar cannot mention a type variable."""
    PREFERRED: ClassVar[int | None] = None
    """The version to send where the server has it, in place of the newest in common."""

    def __init_subclass__(cls) -> None:
        """Be of the same API as the response, which the class of a request is written with: ``Request[XResponse]``."""
        super().__init_subclass__()
        (cls.RESPONSE,) = get_args(vars(cls)["__orig_bases__"][0])
        cls.API_KEY, cls.NAME = cls.RESPONSE.API_KEY, cls.RESPONSE.NAME
        cls.VERSIONS, cls.FLEXIBLE_FROM = cls.RESPONSE.VERSIONS, cls.RESPONSE.FLEXIBLE_FROM
