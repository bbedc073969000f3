# libconform: conformance rows, bounds and the check-and-bench loop (a convenience library of the tests and the command).
