"""Patterns that are compiled when they are first used."""

from __future__ import annotations

import copy
import pickle
import re

from featuregate.logs import get_logger
from featuregate.patterns import pattern


def test_a_pattern_does_what_a_compiled_one_does() -> None:
    """With its flags, again and again."""
    words = pattern("[a-z]+", re.IGNORECASE)
    assert [bool(words.fullmatch(text)) for text in ("Ab", "1", "c")] == [True, False, True]
    assert words.sub("x", "A 1") == "x 1"


def test_what_is_made_at_the_first_use_can_be_copied_before() -> None:
    """A function that is sent to a Spark worker takes along what its module has."""
    assert copy.deepcopy(pattern("a")).fullmatch("a")
    assert pickle.loads(pickle.dumps(pattern("a"))).fullmatch("a")
    assert copy.copy(get_logger("featuregate")).name == "featuregate"
