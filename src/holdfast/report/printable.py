"""Names as text that can be printed anywhere: nothing in them moves a cursor or turns letters round."""


def printable(text: str) -> str:
    """The text with every character that cannot be printed written as its escape, as in "\\x1b"."""
    return "".join(letter if letter.isprintable() else _escaped(letter) for letter in text)


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
