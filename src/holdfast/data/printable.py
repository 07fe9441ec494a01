"""Text from files and folders, made safe to print on a terminal."""


def printable(text: object) -> str:
    """The text with control characters escaped, as in `\\x1b`, so that a terminal shows them instead of obeying."""
    return "".join(character if character.isprintable() else _written_out(character) for character in str(text))


def _written_out(character: str) -> str:
    return character.encode("unicode_escape").decode()
