"""`python -m freshline`: the same program as `freshline`."""

from freshline.cli.main import main

if __name__ == "__main__":
    main()
