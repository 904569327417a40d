"""Several proxies on one machine that serve one port (`hivemind proxy --workers N`), each a process of its own.

A supervisor, which serves no traffic, starts them (:mod:`.supervisor`). They share their upstreams' limits as the
members of any fleet do.
"""
