# tests/layering
