"""Functions that a text names, since a file cannot hold one."""

from __future__ import annotations

import re
from typing import Any, Final

from featuregate.errors import ConfigError

_REFERENCE: Final = re.compile(
    r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<function>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)"
)


def imported(key: str, reference: str) -> Any:
    """Import what ``module:function`` names, as an entry point does. The module's code runs.

    Raises `ConfigError`, which says what is missing; the text of an error of the module may hold a secret.
    """
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        raise ConfigError(key, "is not of the form MODULE:FUNCTION, such as signers:msk_token")
    module, function = found["module"], found["function"]
    from pkgutil import resolve_name  # noqa: PLC0415 - most configurations name no function

    try:
        return resolve_name(reference)
    except ModuleNotFoundError as error:
        problem = f"there is no module {error.name}: put its folder into PYTHONPATH, or install it"
    except AttributeError:
        problem = f"the module {module} has no {function}"
    except Exception as error:  # noqa: BLE001 - of the module
        problem = f"the module {module} cannot be imported: {type(error).__name__}"
    raise ConfigError(key, problem)
