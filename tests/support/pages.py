"""A page taken apart, and what strangers might write into it."""

from html.parser import HTMLParser

INLINE = frozenset({"a", "bdi", "code", "span", "strong", "time"})
VOID = frozenset({"meta", "br", "input"})
HOSTILE = [
    "<script>alert(1)</script>",
    "</style></title><img src=x onerror=alert(1)>",
    "\" onmouseover='alert(1)",
    "{{ 7 * 7 }}{% include 'x' %}{# #}",
    "\x1b[31mred\x1b[0m\x07",
    "abc\u202egpj.exe\u2066",
    "a\u2028b\nc\x00",
    "&lt;b&gt;",
    "x" * 100_000,
]


class Page(HTMLParser):
    """A page taken apart: its tags with their attributes, and the text below each element."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.texts, self._open = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self._open.append((tag, dict(attributes), []))

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        for _, _, parts in self._open:
            parts.append(data)

    def handle_endtag(self, tag):
        name, attributes, parts = self._open.pop()
        assert name == tag
        self.texts.append((tag, attributes, "".join(parts)))
        self.handle_data("" if tag in INLINE else " ")

    def all(self, tag, **wanted):
        """Return the text of each such element, with single spaces."""
        return [
            " ".join(text.split())
            for name, attributes, text in self.texts
            if name == tag and wanted.items() <= {"class_": attributes.get("class"), **attributes}.items()
        ]

    @property
    def text(self):
        (body,) = self.all("body")
        return body


def shape_of(page):
    """Return each tag with the names of its attributes."""
    return [(tag, sorted(attributes)) for tag, attributes in page.tags]


def is_harmless(text):
    """Return whether nothing in the text of a page can act on who reads it."""
    return all(character.isprintable() or character == "\n" for character in text)
