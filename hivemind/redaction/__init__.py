"""Masking credentials in all that is shown, logged or stored.

Four modules, from the general to the particular:

- :mod:`.forms` is the table of key forms that providers document, compiled once for text and once for bytes;
- :mod:`.text` redacts text, :mod:`.bodies` redacts request and response bodies;
- :mod:`.values` finds the credentials that one request carries, so that they can be masked wherever else they occur;
- :mod:`.heads` makes method, path and headers fit to be shown, headers by an allow-list in :mod:`.names`.

Everything here takes time linear in its input, because the input comes from clients and upstreams.
"""
