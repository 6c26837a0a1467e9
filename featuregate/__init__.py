"""featuregate: ask every broker what it can do, and switch behaviour only when that is safe."""

__version__ = "0.1.0"
