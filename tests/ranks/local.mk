# tests/ranks
