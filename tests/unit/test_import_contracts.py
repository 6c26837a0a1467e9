"""The contract that reads from a docstring that a module is pure; the other contracts are the library's own."""

import pytest

grimp = pytest.importorskip("grimp", reason="needs import-linter")

from pure_modules import PureModules, pure_modules, says_pure  # noqa: E402 - it needs import-linter, too


def test_a_module_says_that_it_is_pure_where_its_docstring_begins() -> None:
    """In the first paragraph or the second one, as a word of its own."""
    assert says_pure('"""Merge answers. Pure; the order never matters."""')
    assert says_pure('"""What can go wrong.\n\nPure: it does no I/O.\n"""')
    assert not says_pure('"""Merge answers.\n\nA page.\n\nPure. But late."""')
    assert not says_pure('"""Merges pure functions. Purely."""')
    assert not says_pure("MERGE = 'Pure.'")


def test_a_package_speaks_for_its_modules() -> None:
    """A package of which only the name begins like it is another one."""
    sources = [("app.view", '"""A view. Pure."""'), ("app.view.merging", ""), ("app.viewer", ""), ("app.net", "")]
    assert pure_modules(sources) == ["app.view", "app.view.merging"]


def test_a_pure_module_that_reaches_a_socket_breaks_the_contract() -> None:
    """Directly or through another module, which need not say anything."""
    graph = grimp.ImportGraph()
    for name in ("featuregate.view.merging", "featuregate.net.dial"):
        graph.add_module(name)
    graph.add_module("socket", is_squashed=True)
    contract = PureModules("pure", {}, {"roots": ["featuregate"], "impure": ["socket"]})
    assert contract.check(graph, verbose=False).kept
    graph.add_import(importer="featuregate.net.dial", imported="socket")
    assert contract.check(graph, verbose=False).kept
    graph.add_import(importer="featuregate.view.merging", imported="featuregate.net.dial")
    broken = contract.check(graph, verbose=False)
    assert not broken.kept
    assert broken.metadata["chains"] == [("featuregate.view.merging", "featuregate.net.dial", "socket")]
