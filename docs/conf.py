"""How Sphinx builds the documentation: `make docs`."""

from __future__ import annotations

from dataclasses import Field
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING, get_type_hints

from sphinx.util.nodes import make_refnode

from featuregate.wire.update_features import (
    FeatureResult,
    FeatureUpdate,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from docutils.nodes import Element
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

project = "featuregate"
author = "The featuregate authors"
project_copyright = "The featuregate authors"
version = release = version_of("featuregate")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
source_suffix = {".md": "markdown"}
default_role = "literal"
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"featuregate {version}"
html_static_path = ["style"]
html_css_files = ["pages.css"]
copybutton_prompt_text = "$ "  # a copied command has no prompt, and not what it prints
copybutton_line_continuation_character = "\\"
copybutton_selector = ", ".join(
    f"div.highlight-{kind} pre"  # not what a command prints
    for kind in ("python", "py", "console", "toml", "yaml", "properties")
)

myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_rtype = False

# Every reference must lead somewhere, but for names of the standard library: no inventory is fetched while building.
nitpicky = True
nitpick_ignore_regex = [
    (
        r"py:.*",
        r"(argparse|asyncio|collections|concurrent|datetime|enum|logging|os|pathlib|ssl|subprocess|types|typing)\..*",
    ),
    (
        r"py:.*",
        r"(confluent_kafka\..*|Consumer|KafkaError|Message|Producer|TopicPartition)",
    ),
    (r"py:.*", r"(pyspark\..*|Broadcast|DataFrame|SparkSession)"),
    (
        r"py:.*",
        r"(Any|Callable|Iterable|Iterator|Mapping|Path|PathLike|Self|Sequence|Settings|TracebackType|timedelta|[A-Z]|~[A-Z])",
    ),
    (r"py:.*", r"featuregate[\w.]+\.[A-Z]"),  # type variables
]


for documented in (
    UpdateFeaturesRequest,
    FeatureUpdate,
    UpdateFeaturesResponse,
    FeatureResult,
):
    documented.__annotations__ = get_type_hints(
        documented, localns={"Field": Field}
    )  # without the marks of the schema; their base class imports Field for type checkers alone


def follow_short_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, contnode: Element
) -> Element | None:
    """Resolve a name by its last part.

    All that autodoc sees of what is imported for type checkers only is a bare name, and a public name is documented
    where people import it, not where it is defined.
    """
    python = env.domains.python_domain
    if node["refdomain"] != "py" or node["reftype"] not in {
        "class",
        "exc",
        "data",
        "obj",
        "meth",
        "func",
    }:
        return None
    found = python.find_obj(
        env, None, None, node["reftarget"].rpartition(".")[2], None, 1
    )
    if len({entry.docname for _, entry in found}) != 1:
        return None
    name, entry = found[0]
    return make_refnode(
        app.builder, node["refdoc"], entry.docname, entry.node_id, contnode, name
    )


def keep_first_sentence(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Keep napoleon from taking what stands before a colon, in the first line of an attribute, for its type."""
    if what in {"attribute", "property", "data"}:
        lines[:0] = ["..", ""]  # an empty comment, which reads as no type


def setup(app: Sphinx) -> None:
    """Connect the two."""
    app.connect("missing-reference", follow_short_name)
    app.connect("autodoc-process-docstring", keep_first_sentence, priority=1)
