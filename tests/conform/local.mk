# tests/conform
