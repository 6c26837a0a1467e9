"""Every error of featuregate.

.. code-block:: text

    FeatureGateError                  base of all errors
    ├── ConfigError                   a property has a value that cannot be used; also a ValueError
    │   └── OtherCluster              a broker belongs to another cluster than the app names
    ├── RequirementError              the text of a requirement does not parse; also a ValueError
    ├── UnknownApi                    no API has this name; also a LookupError
    ├── UsageReportError              JSON text is not a usage report; also a ValueError
    ├── ViewJsonError                 JSON text is not a view; also a ValueError
    ├── InvalidUpdate                 no cluster can have such levels; also a ValueError
    ├── UpdateRefused                 the controller refused a level; carries the result of each update
    ├── UpdateUncertain               an update may or may not have been applied
    ├── LevelsNotReached              a broker does not show the levels in time; also a TimeoutError
    ├── WireError                     a message cannot be sent or read
    │   ├── LocalWireError            the client's fault: Kafka does not allow these bytes
    │   │   └── UnsupportedVersion    broker and client have no version of an API in common
    │   └── RemoteWireError           the broker's fault: it sent bytes that do not parse
    ├── NetError                      the connection to one broker failed
    │   ├── ConnectFailed             not connected: refused, unreachable
    │   │   ├── HostNotAllowed        featuregate.allowed.hosts does not list the host
    │   │   └── UnknownHost           the name does not resolve
    │   ├── TimedOut                  a time limit expired
    │   ├── TlsFailed                 the TLS handshake failed
    │   │   └── HostNameMismatch      the certificate is for another host
    │   └── ConnectionLost            the peer closed or reset the connection
    ├── AuthenticationFailed          SASL failed
    ├── SharedAddress                 several nodes have the address, and none proves that it answered
    ├── BrokerError                   the broker answered with an error code
    ├── DiscoveryError                no broker answered; carries the cause of each
    ├── RelayError                    a relay gave no view
    ├── OlderAnswers                  a source returned older answers than those at hand
    ├── GateClosed                    ``require()`` or a guard found a gate that is not open
    ├── NotPicklable                  the object cannot be sent to another process; also a TypeError
    ├── ClosedError                   the object was used after ``close()``
    ├── RefreshTimedOut               no poll has ended in time; also a TimeoutError
    ├── LatchStoreError               the durable latch could not be read or written
    │   └── LatchStoreCorrupt         the durable latch does not parse; it was moved aside
    └── LocalKafkaError               real Kafka, for tests, could not be downloaded, started or controlled

Every error can be pickled and sent to another process: its ``args`` are the arguments of the constructor, and its text
is made from them. No error carries a password, a token or a key.
"""

from __future__ import annotations

from featuregate.errors.base import (
    ClosedError,
    ConfigError,
    FeatureGateError,
    GateClosed,
    InvalidUpdate,
    LatchStoreCorrupt,
    LatchStoreError,
    LevelsNotReached,
    LocalKafkaError,
    NotPicklable,
    OtherCluster,
    RefreshTimedOut,
    RequirementError,
    UnknownApi,
    UpdateRefused,
    UpdateUncertain,
    UsageReportError,
    ViewJsonError,
)
from featuregate.errors.network import (
    AuthenticationFailed,
    BrokerError,
    ConnectFailed,
    ConnectionLost,
    DiscoveryError,
    HostNameMismatch,
    HostNotAllowed,
    LocalWireError,
    NetError,
    OlderAnswers,
    RelayError,
    RemoteWireError,
    SharedAddress,
    TimedOut,
    TlsFailed,
    UnknownHost,
    UnsupportedVersion,
    WireError,
)

__all__ = [
    "AuthenticationFailed",
    "BrokerError",
    "ClosedError",
    "ConfigError",
    "ConnectFailed",
    "ConnectionLost",
    "DiscoveryError",
    "FeatureGateError",
    "GateClosed",
    "HostNameMismatch",
    "HostNotAllowed",
    "InvalidUpdate",
    "LatchStoreCorrupt",
    "LatchStoreError",
    "LevelsNotReached",
    "LocalKafkaError",
    "LocalWireError",
    "NetError",
    "NotPicklable",
    "OlderAnswers",
    "OtherCluster",
    "RefreshTimedOut",
    "RelayError",
    "RemoteWireError",
    "RequirementError",
    "SharedAddress",
    "TimedOut",
    "TlsFailed",
    "UnknownApi",
    "UnknownHost",
    "UnsupportedVersion",
    "UpdateRefused",
    "UpdateUncertain",
    "UsageReportError",
    "ViewJsonError",
    "WireError",
]

for _error in __all__:
    globals()[_error].__module__ = __name__  # tracebacks and pickles name the public module
