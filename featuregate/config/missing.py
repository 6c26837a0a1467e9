"""The error for credentials that are missing, which an app that lists every broker does not need."""

from __future__ import annotations

from featuregate.errors import ConfigError


class MissingCredentials(ConfigError):
    """No usable credentials; an app that lists every broker needs none.

    ``listing`` is the setting that says so, in the spelling of the place that prints the error: an argument, an option,
    or a key of a file. None where there is no such setting.
    """

    def __init__(self, key: str, missing: str, listing: str | None = 'broker_list="bootstrap"') -> None:
        way_out = (
            f", or set {listing} if the bootstrap list names every broker: then featuregate sends only ApiVersions, "
            "which brokers answer before authentication"
        )
        super().__init__(key, missing + (way_out if listing else ""))
        self.args = (key, missing, listing)
        self._missing = missing

    def beside(self, more: str) -> MissingCredentials:
        """Return the same error with more of the reason."""
        return MissingCredentials(self.key, self._missing + more, self.args[2])

    def with_listing(self, listing: str | None) -> MissingCredentials:
        """Return the same error in the words of another place."""
        return MissingCredentials(self.key, self._missing, listing)


def in_words_of(error: ConfigError, listing: str | None) -> ConfigError:
    """Return the error in the words of a place, where its advice differs between places."""
    return error.with_listing(listing) if isinstance(error, MissingCredentials) else error
