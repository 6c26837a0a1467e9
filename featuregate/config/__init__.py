"""Read client properties in every spelling into one frozen `Settings`.

:mod:`~featuregate.config.keys` lists every property that is read; all others are ignored. This package does not use the
network. It opens ``.properties`` files and the files of ``config.providers``; `featuregate.credentials` and
`featuregate.net` read the others.
"""

from featuregate.config.addresses import Address
from featuregate.config.keys import KEYS, PropertyKey
from featuregate.config.secrets import Secret
from featuregate.config.settings import Settings

__all__ = ["KEYS", "Address", "PropertyKey", "Secret", "Settings"]
