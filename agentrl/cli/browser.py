"""Pages that a command wrote or serves, shown in the browser where that is asked for.

In    a command's options; an address
Out   a browser's tab
Not   a page
"""

from __future__ import annotations

from agentrl.cli.parser import Parser


def opens_pages(parser: Parser) -> None:
    """Let a command find runs by name, and show what it made of them."""
    parser.add_argument("--runs", default="runs", metavar="DIR", help="folder of all runs [runs]")
    parser.add_argument("--open", action="store_true", help="show it in the browser")
    parser.add_argument(
        "--no-open", dest="open", action="store_false", help="only write it [the default]"
    )


def show(address: str) -> None:
    """Show a page."""
    import webbrowser

    webbrowser.open(address)
