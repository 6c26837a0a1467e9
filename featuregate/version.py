"""The version of featuregate. The build, `featuregate.__version__` and the requests to brokers take it from here."""

__version__ = "0.1.0"


def how_to_install(extra: str) -> str:
    """Return the command that installs an extra, for an error: in a checkout, and for who has the wheel alone."""
    wheel = f"featuregate-{__version__}-py3-none-any.whl"
    return f"pip install '.[{extra}]' in a checkout, or '{wheel}[{extra}]' where the wheel is"
