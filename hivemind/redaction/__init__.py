"""Masking credentials in all that is shown, logged or stored.

- :mod:`.forms`: the key forms that providers document, compiled once for text and once for bytes;
- :mod:`.text` redacts text, :mod:`.bodies` request and response bodies;
- :mod:`.values`: the credentials that one request carries, which are masked wherever else they occur;
- :mod:`.heads` masks method, path and headers.

Everything here takes time linear in its input, because the input comes from clients and upstreams.
"""
