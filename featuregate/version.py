"""The version of featuregate. The build, `featuregate.__version__` and the requests to brokers take it from here."""

__version__ = "0.1.0"
