"""The command line: `main` is the entry point, `app` lists the commands, most others hold one command.

No module here imports jax or matplotlib at its top level, so that help and errors appear at once.
"""
