"""The fragments of the changelog."""

import tomllib

from doc_pages import ROOT


def test_each_fragment_has_a_kind_that_is_built() -> None:
    """A release would leave out any other, in silence."""
    kinds = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]["type"]
    fragments = [path.name for path in (ROOT / "docs/changelog.d").glob("+*")]
    assert fragments
    assert {name for name in fragments if name.split(".")[-2] not in {kind["directory"] for kind in kinds}} == set()
