"""Check the built site: every link leads somewhere, and no page makes a network request.

``python docs/check_site.py build/site`` prints what is wrong, and exits with 1 if anything is.
Links to other sites are not followed.
"""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"img": "src", "script": "src", "iframe": "src", "source": "src", "link": "href"}
"""What a browser loads by itself, by tag, and the attribute that says from where."""
FROM_CSS = re.compile(r"""(?:@import\s+|url\()\s*["']?((?:https?:)?//[^"')\s]+)""")


class Page(HTMLParser):
    """The anchors of a page, the places that it links to, and those that it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = {"", "top"}
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect from one element."""
        given = {name: value for name, value in attrs if value}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in LOADED and LOADED[tag] in given:
            self.loads.append(given[LOADED[tag]])


def faults(site: Path) -> Iterator[str]:
    """Yield a line for each fault."""
    pages = {
        path: Page(path.read_text("utf-8"))
        for path in sorted(site.rglob("*.html"))
        if "_static" not in path.parts
    }
    for path, page in pages.items():
        name = path.relative_to(site)
        for target in page.loads:
            if urlsplit(target).netloc:
                yield f"{name} loads {target}"
        for target in {*page.links, *page.loads}:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
            file = file / "index.html" if file.is_dir() else file
            if not file.exists():
                yield f"{name}: no file {target}"
            elif file in pages and unquote(parts.fragment) not in pages[file].anchors:
                yield f"{name}: no anchor {target}"
    for path in sorted(site.rglob("*.css")):
        for target in FROM_CSS.findall(path.read_text("utf-8")):
            yield f"{path.relative_to(site)} loads {target}"


if __name__ == "__main__":
    found = list(faults(Path(sys.argv[1]).resolve()))
    print("\n".join(found) or "Every link leads somewhere, and no page loads from elsewhere.")
    sys.exit(bool(found))
