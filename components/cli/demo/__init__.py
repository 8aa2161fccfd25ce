"""`piriscale demo`: a real application in a real container becomes slow, is given more CPU, and is fast again."""

from components.cli.demo.story import run_demo

__all__ = ["run_demo"]
