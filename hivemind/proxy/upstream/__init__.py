"""The network seam towards the providers; :mod:`.base` says what it promises."""
