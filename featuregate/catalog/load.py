"""Read the data files of the wheel, which may be a zip on a Spark cluster (``--py-files``)."""

from __future__ import annotations

import functools
from typing import Any

__all__ = ["load"]


@functools.cache
def load(name: str) -> Any:
    """Return the content of ``featuregate/catalog/data/<name>.json``, read once; None where there is no such file."""
    import json  # noqa: PLC0415 - loaded at the first lookup
    import pkgutil  # noqa: PLC0415

    try:
        content = pkgutil.get_data("featuregate.catalog", f"data/{name}.json")
    except FileNotFoundError:
        return None
    return None if content is None else json.loads(content)
