"""What is known of the clients that a run may start: a file for each (:mod:`.facts` has its type).

The programs here (:mod:`.shim`) start in front of every call of a client, so these modules import nothing that takes
long: no third-party package, no dataclasses, no typing, and json only where it is needed.
"""
