"""The command line as a module: python -m holdfast, or torchrun -m holdfast."""

from holdfast.cli.main import main

if __name__ == "__main__":
    main()
