"""Links in an upstream's answers, as they lead through the proxy.

Clients follow links to what they uploaded, started or list next. One that leads to the upstream itself would take
their key, budget and name past the proxy, so it is rewritten to the base URL that the client used: in the headers that
hold links, and in members of a JSON document whose names say that they hold one. Other members are left alone: the
`uri` of Google's files, say, is sent back to the provider in a prompt.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

LINK_HEADERS = frozenset(
    b"location content-location operation-location azure-asyncoperation link x-goog-upload-url"
    b" x-goog-upload-control-url".split()
)
"""Headers of answers that hold URLs for the client: RFC 9110 and RFC 8288, Azure's operations, Google's uploads."""
_FOLLOWED = LINK_HEADERS - {b"content-location", b"link"}
"""Those that clients follow by themselves."""
_URL = re.compile(rb"(?:(https?):)?//([\w.:\[\]-]+)(?=[/?#]|$)(.*)", re.I | re.S)
_IN_ANGLES = re.compile(rb"<([^<>]*)>")
_DEFAULT_PORTS = {b"http": b"80", b"https": b"443"}
_MEMBER = re.compile(rb'"(\s*:\s*")(https?:\\?/\\?/[^"\s]*)(?=")')
"""The value of a member, after its name, that is a URL."""
_PAGES = rb"next|prev|previous|first|last|self|get|cancel|stream"
_LINKS = re.compile(_PAGES + rb"|[\w@.-]*(?:url|Url|URL|link|Link|href|location|Location)")
"""Names of members that hold a link: pages, operations, results."""
_CALLED = re.compile(
    _PAGES + rb"|@?(?:results?|status|response|cancel|next|prev|polling|operation)_?(?:[uU]rl|[lL]ink)"
)
"""Of these, the links that clients call with their key. A picture's `url`, say, often leads to a store of files."""
_LONGEST_NAME = 40


class Links(Struct, frozen=True):
    """The links in answers to requests with one head."""

    base: bytes = b""
    """The base URL that the client used, with our prefixes and without a slash at the end."""
    prefix: bytes = b""
    """Its path."""
    scheme: bytes = b"http"
    authority: bytes = b""
    """Host and port of the upstream, in lower case; without the scheme's own port."""
    base_path: bytes = b""
    """Path of the upstream's own base URL."""
    path: str = ""
    """That of the requests."""
    past: Callable[[str, str, str], object] = lambda path, what, host: None
    """Called with that path, what holds a link, and the host, for each that is followed and leads elsewhere."""

    def in_header(self, name: bytes, value: bytes) -> bytes:
        """Return the value of a header of :data:`LINK_HEADERS` with links that lead through the proxy."""
        if name == b"link":
            return _IN_ANGLES.sub(lambda found: b"<%b>" % self._through(found[1]), value)
        link = self._through(value)
        if link is value and name in _FOLLOWED:
            self._note(name, value)
        return link

    def in_body(self, body: bytes) -> bytes:
        """Return a JSON document with links that lead through the proxy; the same object where it has none."""

        def rewritten(member: re.Match[bytes]) -> bytes:
            name = body[body.rfind(b'"', max(0, member.start() - _LONGEST_NAME), member.start()) + 1 : member.start()]
            url = member[2].replace(rb"\/", b"/")
            link = self._through(url) if _LINKS.fullmatch(name) else url
            if link is not url:
                return b'"%b%b' % (member[1], link)
            if _CALLED.fullmatch(name):
                self._note(name, url)
            return member[0]

        found = _MEMBER.sub(rewritten, body) if b"http" in body else body
        return body if found == body else found

    def look_in(self, data: bytes) -> None:
        """Tell of links to the upstream in a part of a document that is too long to be rewritten."""
        if b"//" + self.authority in data:
            self.past(self.path, "a long document", self.authority.decode())

    def _through(self, url: bytes) -> bytes:
        """Return the URL by which the client reaches the same through the proxy; the same object where there is
        none."""
        base, rest = self.prefix, url
        if not url.startswith(b"/") or url.startswith(b"//"):
            found = _URL.fullmatch(url)
            if found is None or self._host_of(found) != self.authority:
                return url  # elsewhere, or relative to the request's own path
            base, rest = self.base, found[3]
        inside = rest[len(self.base_path) :]
        if not rest.startswith(self.base_path) or (self.base_path and inside[:1] not in (b"", b"/", b"?", b"#")):
            return url
        return base + inside

    def _host_of(self, url: re.Match[bytes]) -> bytes:
        """Return host and port of an absolute URL; those of either scheme are the same upstream's."""
        scheme, host = (url[1] or self.scheme).lower(), url[2].lower()
        return host.removesuffix(b":" + _DEFAULT_PORTS[scheme])

    def _note(self, name: bytes, url: bytes) -> None:
        found = _URL.fullmatch(url)
        if found is not None:
            self.past(self.path, name.decode("latin-1"), found[2].decode("latin-1"))
