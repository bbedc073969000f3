# Examples, built by `make check`.
