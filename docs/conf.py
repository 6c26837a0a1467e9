"""How Sphinx builds the documentation: `make docs`."""

from importlib.metadata import version as version_of

project = "featuregate"
author = "The featuregate authors"
project_copyright = "The featuregate authors"
version = release = version_of("featuregate")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
default_role = "literal"
exclude_patterns = ["_build", "changelog.d"]
html_theme = "furo"
html_title = f"featuregate {version}"

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
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
    (r"py:.*", r"(collections|concurrent|asyncio|datetime|os|pathlib|ssl|typing|types|enum|argparse|logging|threading)\..*"),
    (r"py:class", r"[a-z].*, .*|optional|callable|mapping|path-like.*"),
    (r"py:(class|exc|obj)", r"(Path|PathLike|Callable|Mapping|Sequence|Iterator|Iterable|Any|Self|P|R|T|~?[PR]|.*ParamSpec.*)"),
]
