"""A pytest plugin (`-p alias_httpx2`): answers `import httpx` with httpx2, before anything asks."""

import httpx2

httpx2.alias_httpx()
