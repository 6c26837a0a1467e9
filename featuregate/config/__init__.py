"""Properties in every spelling become one frozen `Settings`.

:mod:`~featuregate.config.keys` lists every property that is read; everything else in the app's configuration is
ignored. Nothing here touches the network, and files are opened by whoever needs what is in them, but for a
``.properties`` file that is itself the configuration.
"""

from featuregate.config.addresses import Address
from featuregate.config.keys import KEYS, Key
from featuregate.config.sasl import Callback, ClientCredentials, Sasl, TokenSource, UnsecuredToken
from featuregate.config.secrets import Secret
from featuregate.config.settings import Settings
from featuregate.config.tls import Material, Tls

__all__ = [
    "KEYS",
    "Address",
    "Callback",
    "ClientCredentials",
    "Key",
    "Material",
    "Sasl",
    "Secret",
    "Settings",
    "Tls",
    "TokenSource",
    "UnsecuredToken",
]
