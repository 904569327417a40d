"""The command line: everything that parses arguments and prints.

Each command is a module; :mod:`hivemind.cli.main` imports only the one that is used.
"""
