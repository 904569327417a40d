"""The index of a journal: where to begin reading for a given time."""
