"""Reading journals, damaged and growing ones included."""
