"""The app's configuration, read by the table in `keys`.

No error repeats a value, because a wrong value may hold a password.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final

from featuregate.config.from_files import InertText, TextOfFile, require_code
from featuregate.config.keys import KEYS, KEYWORDS, SPARK_PREFIX, PropertyKey, is_spark, misspelt, plain_name
from featuregate.config.secrets import Secret
from featuregate.errors import ConfigError
from featuregate.patterns import pattern

if TYPE_CHECKING:
    import ssl

_BY_NAME: dict[str, PropertyKey] = {key.name: key for key in KEYS}
BOOTSTRAP: Final = frozenset(each for key in KEYS if key.name.startswith("bootstrap.") for each in key.spellings)
"""The names of the addresses of brokers and of controllers."""
_TRUE = frozenset({"true", "t", "1", "yes", "on"})
_FALSE = frozenset({"false", "f", "0", "no", "off"})
_SECURITY = ("security", "sasl", "ssl")
_PERHAPS = 0.85  # for what is known to be missing
_WEEK_MS = 7 * 24 * 3600 * 1000
_BLANKS = "".join(map(chr, range(0x21)))
"""What ``String.trim()`` of Java removes."""
_TRIMMED = frozenset(
    {
        "sasl.oauthbearer.client.credentials.client.secret",
        "ssl.key.password",
        "ssl.keystore.password",
        "ssl.truststore.password",
    }
)
"""Passwords of Java's clients (``ConfigDef.Type.PASSWORD``). Those of the other clients keep their white space."""


class Properties:
    """The app's value of each `PropertyKey`; all other properties are dropped.

    Where any name begins with ``kafka.``, as in the options of a Spark stream, only such names are read.
    """

    def __init__(self, values: Mapping[str, object]) -> None:
        if any(not isinstance(name, str) for name in values):
            raise ConfigError("config", "every name of a property must be a str")
        self.prefix = SPARK_PREFIX if any(map(is_spark, values)) else ""
        said = {
            plain_name(name): value
            for name, value in values.items()
            if value is not None and (not self.prefix or is_spark(name))
        }
        replaced = _placeholders(said, self.prefix)
        self._said = {
            spelling: replaced(
                self.prefix + spelling, _joined(said[spelling]) if key.kind == "addresses" else said[spelling]
            )
            for key in KEYS
            for spelling in key.spellings
            if spelling in said
        }
        self.unread = {name: value for name, value in said.items() if name not in self._said}
        """The properties that are not read, by their names without the prefix; some are secret."""
        self.ignored = [*self.unread, *(name for name in values if self.prefix and not is_spark(name))]
        """The names of those and of the ones that have no prefix where others have one."""
        self._keywords = any(spelling in KEYWORDS for spelling in self._said)

    @classmethod
    def of(cls, config: str | Mapping[str, object] | os.PathLike[str]) -> Properties:
        """Take a bootstrap list, a mapping, or the path of a ``.properties`` file in Java's syntax."""
        if isinstance(config, str):
            return cls({"bootstrap.servers": config})
        if isinstance(config, Mapping):
            return cls(config)
        if isinstance(config, os.PathLike):
            from featuregate.config.properties_file import read_properties  # noqa: PLC0415 - few apps have a file

            return cls(read_properties(config))
        raise ConfigError(
            "config",
            f"{type(config).__name__} is none of: a str of host:port, a mapping of properties, "
            "the pathlib.Path of a .properties file",
        )

    def spelling(self, name: str) -> str:
        """Return the app's spelling of the name, for errors.

        Where the app does not set it: the keyword, for an app that sets others by keywords, else `PropertyKey.name`.
        """
        spellings = _BY_NAME[name].spellings
        said = [spelling for spelling in spellings if spelling in self._said]
        if self._keywords:
            said += [spelling for spelling in spellings if spelling in KEYWORDS]
        return self.prefix + (said or [name])[0]

    def hint(self, name: str) -> str:
        """Return a question about a name that the app gives in place of this one; empty where there is none."""
        meant = sorted(
            given for given, close in misspelt(self.unread, alike=_PERHAPS).items() if close in _BY_NAME[name].spellings
        )
        # A framework's prefix, such as spring.kafka.bootstrap-servers, is more than a few wrong letters.
        meant = meant or sorted(given for given in self.unread if _letters(given).endswith(_letters(name)))
        return f"; did you mean it by {self.prefix}{meant[0]}?" if meant else ""

    def misspelt_security(self) -> dict[str, str]:
        """Return the names that have no effect but resemble a property of security, TLS or SASL, with that property."""
        return {
            self.prefix + given: self.prefix + meant
            for given, meant in misspelt(self.unread).items()
            if meant.startswith(_SECURITY)
        }

    def names(self) -> set[str]:
        """Return the name of each `PropertyKey` that the app sets."""
        return {key.name for key in KEYS if self.is_set(key.name)}

    def is_set(self, name: str) -> bool:
        """Return whether the app sets any spelling of the name."""
        return any(spelling in self._said for spelling in _BY_NAME[name].spellings)

    def text(self, name: str) -> str | None:
        """Return the text without surrounding white space, as Kafka does; None where it is empty or not set."""
        value = self._value(name)
        if value is None:
            return None
        wanted = str if _BY_NAME[name].kind == "addresses" else str | os.PathLike | int | float
        if not isinstance(value, wanted):
            raise ConfigError(self.spelling(name), f"must be a text, not a {type(value).__name__}")
        text = self._unicode(name, str(os.fspath(value) if isinstance(value, os.PathLike) else value).strip()) or None
        return type(value)(text) if text and isinstance(value, TextOfFile) else text

    def secret(self, name: str) -> Secret | None:
        """Return the text; None where it is empty or not set.

        White space around it is dropped as Java does (``ConfigDef.parseType``), and kept as the other clients do.
        """
        value = self._value(name)
        if isinstance(value, Secret):
            return value
        if value is not None and not isinstance(value, str):
            raise ConfigError(self.spelling(name), f"must be a text, not a {type(value).__name__}")
        if value and self.spelling(name).removeprefix(self.prefix) in _TRIMMED:
            value = value.strip(_BLANKS)
        return Secret(self._unicode(name, value)) if value else None

    def choice(self, name: str) -> str:
        """Return one of the key's choices, in the case of the table; the default where it is not set."""
        key, value = _BY_NAME[name], self._value(name)
        if value is None:
            return key.default
        by_lower = {choice.lower(): choice for choice in key.choices}
        found = by_lower.get(value.strip().lower()) if isinstance(value, str) else None
        if found is None:
            allowed = ", ".join(choice or "(empty)" for choice in key.choices)
            raise ConfigError(self.spelling(name), f"its value is none of: {allowed}")
        return found

    def flag(self, name: str) -> bool:
        """Return a boolean, in the spelling of librdkafka or Java."""
        value = self._value(name)
        text = (_BY_NAME[name].default if value is None else str(value)).strip().lower()
        if text not in _TRUE | _FALSE:
            raise ConfigError(self.spelling(name), "its value is none of: true, false")
        return text in _TRUE

    def seconds(self, name: str) -> float | None:
        """Return seconds, from a whole number of milliseconds; None where it is not set."""
        value = self._value(name)
        if value is None:
            return None
        try:
            milliseconds = int(str(value).strip())
        except ValueError:
            milliseconds = 0
        if not 1 <= milliseconds <= _WEEK_MS:
            problem = f"its value is not a whole number of milliseconds from 1 to {_WEEK_MS}"
            raise ConfigError(self.spelling(name), problem)
        return milliseconds / 1000

    def function(self, name: str) -> Callable[..., Any] | None:
        """Return a function, also one that a text names as ``module:function``; None where it is not set."""
        value = self._value(name)
        if value is None:
            return None
        if isinstance(value, str):
            value = imported(self.spelling(name), value)
        if not callable(value):
            raise ConfigError(self.spelling(name), f"must be a function, not a {type(value).__name__}")
        function: Callable[..., Any] = value
        return function

    def provider(self, name: str, method: str) -> Any:
        """Return an object with this method; None where it is not set."""
        value = self._value(name)
        if value is not None and not callable(getattr(value, method, None)):
            problem = f"must have a method {method}(), which a {type(value).__name__} has not"
            raise ConfigError(self.spelling(name), problem)
        return value

    def tls_context(self, name: str) -> ssl.SSLContext | None:
        """Return a context of Python's ssl; None where it is not set."""
        value = self._value(name)
        if value is None:
            return None
        import ssl  # noqa: PLC0415 - an app with a context has imported it

        if not isinstance(value, ssl.SSLContext):
            raise ConfigError(self.spelling(name), f"must be an ssl.SSLContext, not a {type(value).__name__}")
        return value

    def _unicode(self, name: str, text: str) -> str:
        """Refuse text that cannot be encoded, such as bytes of the environment that are not UTF-8.

        The error does not hold the text, unlike the one that encoding would raise.
        """
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise ConfigError(self.spelling(name), "holds bytes that are not UTF-8")
        return text

    def _value(self, name: str) -> Any:
        """Return the value of any spelling; the error about two values does not repeat them, they may be secret."""
        said = {spelling: self._said[spelling] for spelling in _BY_NAME[name].spellings if spelling in self._said}
        first, *others = said.items() if said else [(name, None)]
        for spelling, value in others:
            if value != first[1]:
                raise ConfigError(self.prefix + first[0], f"differs from {self.prefix}{spelling}, which means the same")
        return first[1]


def overridden(properties: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of a file with others in their place, in whatever spelling: the addresses, for example.

    Where names of the file begin with ``kafka.``, only such names are read. So all that is given takes that spelling.
    """
    if not properties or not given:
        return {**properties, **given}
    plain = {plain_name(name): value for name, value in given.items()}
    replaced = {*plain, *(each for key in KEYS if not plain.keys().isdisjoint(key.spellings) for each in key.spellings)}
    if replaced & BOOTSTRAP:
        replaced |= BOOTSTRAP
    prefix = SPARK_PREFIX if any(map(is_spark, properties)) else ""
    kept = {name: value for name, value in properties.items() if plain_name(name) not in replaced}
    return kept | {prefix + name: value for name, value in plain.items()}


def _placeholders(said: Mapping[str, object], prefix: str) -> Callable[[str, object], object]:
    """Return what replaces placeholders in a value, and leaves it as it is where no value has any."""
    if not any(
        "${" in value or name.startswith("config.providers") for name, value in said.items() if isinstance(value, str)
    ):
        return lambda _, value: value
    from featuregate.config.providers import Placeholders  # noqa: PLC0415 - few configurations have placeholders

    return Placeholders(said, prefix).replace


def _joined(value: object) -> object:
    if isinstance(value, list | tuple) and all(isinstance(part, str) for part in value):
        return ",".join(value)
    return value


def _letters(name: str) -> str:
    return "".join(filter(str.isalpha, name)).lower()


_REFERENCE: Final = pattern(
    r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<function>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)"
)


def imported(key: str, text: str) -> Any:
    """Import the function that ``module:function`` names, since a file cannot hold one. The module's code runs.

    The text of a file may name a module that the operator allows, and a function or class that such a module defines;
    no text may name one of the standard library. What is only looked at gives a function that raises.

    Raises `ConfigError`, which says what is missing; the text of an error of the module may hold a secret.
    """
    found = _REFERENCE.fullmatch(text.strip())
    if found is None:
        raise ConfigError(key, "is not of the form MODULE:FUNCTION, such as signers:msk_token")
    module, function = found["module"], found["function"]
    require_code(key, text, module)
    if isinstance(text, InertText):
        return _not_run
    from pkgutil import resolve_name  # noqa: PLC0415 - most configurations name no function

    try:
        given = resolve_name(found[0])
    except ModuleNotFoundError as error:
        problem = f"there is no module {error.name}: put its folder into PYTHONPATH, or install it"
    except AttributeError:
        problem = f"the module {module} has no {function}"
    except (Exception, SystemExit) as error:  # noqa: BLE001 - of the module
        problem = f"the module {module} cannot be imported: {type(error).__name__}"
    else:
        if isinstance(given, type | FunctionType | BuiltinFunctionType | MethodType):
            require_code(key, text, given.__module__ or module)  # an allowed module also has what it imports
        return given
    raise ConfigError(key, problem)


def _not_run(_config: str) -> Any:
    raise ConfigError("oauth_cb", "is not run: the configuration is only looked at")
