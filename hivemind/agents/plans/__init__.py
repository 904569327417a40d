"""Plans of batches: the file, its values, the plan, and the way from one to the other."""
