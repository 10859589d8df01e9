"""How Sphinx builds these pages; nothing is fetched from a network."""

import re
import tomllib
from pathlib import Path

SETTINGS = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
PROJECT = tomllib.loads(SETTINGS)["project"]
LAYERS = re.search(r"^layers = \[\n.*?^\]$", SETTINGS, re.MULTILINE | re.DOTALL)[0]

project = PROJECT["name"]
author = PROJECT["authors"][0]["name"]
copyright = f"2026, {author}"
release = version = PROJECT["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["_build"]
default_role = "literal"  # docstrings write `code` as Markdown does

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3

autodoc_class_signature = "mixed"
autodoc_default_options = {"members": True, "member-order": "bysource", "show-inheritance": True}
autodoc_typehints_format = "short"
autodoc_mock_imports = ["pyspark", "ray"]  # large, and not needed to read docstrings
napoleon_custom_sections = ["Source"]
napoleon_use_ivar = True
python_use_unqualified_type_names = True

# Names of other projects resolve through their inventories, which would have to be fetched; private names have no page.
nitpick_ignore_regex = [(r"py:.*", r"(?!payclient\b).*"), (r"py:.*", r"payclient\.(\w+\.)*_.*")]

html_theme = "furo"
html_title = f"{project} {release}"
html_copy_source = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def setup(app):
    """Show the layers where a page asks for them; they are written down in pyproject.toml only."""

    def show_layers(app, page, source):
        block = f"```toml\n{LAYERS}\n```"
        source[0] = source[0].replace("<!-- the layers of pyproject.toml -->", block)

    app.connect("source-read", show_layers)
