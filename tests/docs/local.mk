# tests/docs: what texts tell people to type works, and what people see on a terminal.
EXTRA_DIST += tests/docs/advice tests/docs/commands tests/docs/commands.txt tests/docs/help tests/docs/info tests/docs/paths tests/docs/screen
EXTRA_PROGRAMS += tests/docs/terminal
YOKE_TESTS += '$(top_srcdir)/tests/docs/advice ./yoke' $(top_srcdir)/tests/docs/paths $(top_srcdir)/tests/docs/help
# These type commands of all verbs, which a command that was built without MPI has not.
if WITH_MPI
YOKE_TESTS += 'long $(top_srcdir)/tests/docs/info' 'long $(top_srcdir)/tests/docs/commands' $(top_srcdir)/tests/docs/screen
endif
