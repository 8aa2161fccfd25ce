"""`watch`: the whole system live, in a terminal; one line per change when there is none."""

from components.cli.watch.watching import watch

__all__ = ["watch"]
