"""The one place where the version stands. The build, the front door and what brokers are told read it here."""

__all__ = ["__version__"]

__version__ = "0.1.0"
