"""A flag as OpenFeature's remote evaluation (OFREP 0.3.0) has it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from featuregate.flags import Flag


def to_response(key: str, flag: Flag) -> dict[str, Any]:
    """Return the success response of the protocol.

    The reason is always STATIC, as far as there is a value: the context of a request does not matter.
    """
    known = {} if flag.value is None else {"value": flag.value}
    reason = "UNKNOWN" if flag.value is None else "STATIC"
    return {"key": key, **known, "reason": reason, "variant": flag.variant, "metadata": {"why": flag.why}}
