"""The site of the documentation (packaging/docs.sh)."""

from pathlib import Path

from sphinx import addnodes

project = "Giusto"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "docs/contents"
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["target", "out"]
myst_heading_anchors = 4
# The pages are read in the repository as well, where each begins as it likes.
suppress_warnings = ["myst.header"]
# Names that no page has are errors (sphinx-build -n), but for those of the standard library, whose pages are elsewhere.
nitpick_ignore = [("py:class", "fractions.Fraction")]
html_theme = "alabaster"
html_theme_options = {
    "description": "Latency you can plan",
    "page_width": "94%",
    "body_max_width": "none",  # lines of code are up to 130 characters
    "sidebar_width": "17em",
    "code_font_size": "0.78em",
}
html_static_path = ["look"]  # its custom.css is one that Alabaster looks for
html_copy_source = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"


def folders(app, tree):
    """A link to a folder of the repository, which has no page, is its name alone."""
    for node in list(tree.findall(addnodes.pending_xref)):
        if (Path(tree["source"]).parent / node["reftarget"]).is_dir():
            node.replace_self(node.children)


def setup(app):
    """Called by Sphinx."""
    app.connect("doctree-read", folders)
