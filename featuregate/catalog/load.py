"""Read the data files of the wheel, which may be a zip on a Spark cluster (``--py-files``)."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import ResourceLoader

    __loader__: ResourceLoader


@functools.cache
def load(name: str) -> Any:
    """Return the content of ``featuregate/catalog/data/<name>.json``, read once; None where there is no such file."""
    import json  # noqa: PLC0415 - loaded at the first lookup

    data = os.path.join(os.path.dirname(__file__), "data", f"{name}.json")  # noqa: PTH118, PTH120 - pathlib takes 2 ms
    try:
        return json.loads(__loader__.get_data(data))
    except FileNotFoundError:
        return None
