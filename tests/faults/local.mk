# tests/faults
