"""How Sphinx makes a site of README, docs, examples and experiments. Pages are plain Markdown, as GitHub shows it."""

from __future__ import annotations

import re
from importlib.metadata import version as version_of
from typing import Any

from pydantic import BaseModel

import mnemotune

project, author, release = "mnemotune", "mnemotune", version_of("mnemotune")
project_copyright = "MIT licence"
root_doc = "docs/index"
include_patterns = ["*.md", "docs/*.md", "examples/*.md", "experiments/**.md"]
exclude_patterns = [".*", "build", "dist", "runs", "tests", "*.egg-info"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
myst_heading_anchors = 4
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
html_theme = "furo"
html_title = "mnemotune"
html_theme_options = {"navigation_with_keys": True}
html_additional_pages = {"index": "to_readme.html"}
templates_path = ["site"]
html_static_path = ["site"]
html_css_files = ["site.css"]
html_show_copyright = False
html_copy_source = False


def tables_of_contents(text: str) -> str:
    """Return the site's navigation: each list of links in the index, under its heading."""
    navigation = "```{toctree}\n:hidden:\n\nWhat it is </README>\n```\n"
    for title, links in re.findall(r"^## (.+)\n\n((?:- .*\n)+)", text, re.MULTILINE):
        pages = re.findall(r"\[([^\]]+)\]\(([^)]+)\.md\)", links)
        lines = "".join(f"{name} <{page}>\n" for name, page in pages)
        navigation += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{lines}```\n"
    return navigation


def reference_of(text: str) -> str:
    """Return what the docstrings say of each name in the tables of the page on the API."""
    reference = "\n## In full\n"
    for name in re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE):
        kind = "autoclass" if name[0].isupper() else "autofunction"
        members = ":members:\n" if kind == "autoclass" else ""
        reference += f"\n### {name}\n\n```{{eval-rst}}\n.. {kind}:: mnemotune.{name}\n   {members}```\n"
    return reference


# autodoc imports what is not there yet with TYPE_CHECKING set, which some models of pydantic cannot bear
PUBLIC = {name: getattr(mnemotune, name) for name in mnemotune.__all__}
ADDED = {"docs/index": tables_of_contents, "docs/api": reference_of}


def setup(app: Any) -> None:
    """Add to two pages what only the site can show, and mend signatures that Sphinx cannot read."""

    def add(_: Any, name: str, source: list[str]) -> None:
        if name in ADDED:
            source[0] += ADDED[name](source[0])

    def mend(_: Any, kind: str, __: str, part: Any, *of: Any) -> tuple[str | None, str | None]:
        if kind == "class" and issubclass(part, BaseModel):
            return "", None  # its fields follow
        *_, signature, result = of
        return signature and signature.replace("<factory>", "..."), result

    app.connect("source-read", add)
    app.connect("autodoc-process-signature", mend)
