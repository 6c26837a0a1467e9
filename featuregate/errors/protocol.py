"""Messages that cannot be sent or read, and error codes of brokers."""

from __future__ import annotations

from featuregate.errors.base import FeatureGateError


class WireError(FeatureGateError):
    """Base of the errors of messages: `LocalWireError` is the client's fault, `RemoteWireError` the broker's."""


class LocalWireError(WireError):
    """The client asked for bytes that Kafka does not allow, or used a session in the wrong state."""


class UnsupportedVersion(LocalWireError):
    """The broker and the client have no version of an API in common.

    ``wanted`` is the inclusive range of the client, ``supported`` that of the broker, None where it does not list the
    API. The text is that of Kafka's own client (``NodeApiVersions.latestUsableVersion``).
    """

    def __init__(self, api: str, wanted: tuple[int, int], supported: tuple[int, int] | None) -> None:
        super().__init__(api, wanted, supported)
        self.api = api
        self.wanted = wanted
        self.supported = supported

    def __str__(self) -> str:
        if self.supported is None:
            return f"The node does not support {self.api}"
        lowest, highest = self.wanted
        theirs_lowest, theirs_highest = self.supported
        return (
            f"The node does not support {self.api} with version in range [{lowest},{highest}]. "
            f"The supported range is [{theirs_lowest},{theirs_highest}]."
        )


class RemoteWireError(WireError):
    """The peer sent bytes that do not parse.

    ``field`` names the place in the message, such as ``ApiVersionsResponse v4: finalized_features.name``; ``offset``
    counts bytes from the start of the frame's body, header or length prefix.
    """

    def __init__(self, problem: str, field: str, offset: int) -> None:
        super().__init__(problem, field, offset)
        self.problem = problem
        self.field = field
        self.offset = offset

    def __str__(self) -> str:
        return f"{self.field} at byte {self.offset}: {self.problem}"


class BrokerError(FeatureGateError):
    """The broker answered with an error code.

    ``code``, ``name`` and ``retriable`` are from Kafka's ``Errors.java``; an unknown code is named
    ``UNKNOWN_CODE_999``. ``message`` is the broker's text or advice, or empty. `featuregate.kafka_errors.broker_error`
    makes the error from a code.
    """

    def __init__(self, code: int, name: str, retriable: bool, message: str = "") -> None:  # noqa: FBT001 - pickling passes args by position
        super().__init__(code, name, retriable, message)
        self.code = code
        self.name = name
        self.retriable = retriable
        self.message = message

    def __str__(self) -> str:
        text = f"{self.name} (error {self.code})"
        return f"{text}: {self.message}" if self.message else text
