"""Passes on the adapter of `requests` that another thread can abort."""

from featuregate.abortable import AbortableAdapter

__all__ = ["AbortableAdapter"]
