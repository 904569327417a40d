"""The event loop that screen and proxy share, and what keeps its delays small.

In a process of its own the screen couldn't delay the traffic, but all that it shows would have to be transferred. On
the same loop its data is exact, at the price of care: no step may take more than 10 ms (:mod:`.loop_lag` measures
each). Private names of Textual are checked before they are used, and done without where they differ.
"""
