# tests/hosts: several hosts on one machine. with_hosts makes them; remote is their ssh.
EXTRA_DIST += tests/hosts/with_hosts tests/hosts/start
check_PROGRAMS += tests/hosts/remote
tests_hosts_remote_SOURCES = tests/hosts/remote.c
WITH_HOSTS = $(top_srcdir)/tests/hosts/with_hosts
YOKE_TESTS += \
	"$(top_srcdir)/tests/hosts/start ./yoke" \
	'$(WITH_HOSTS) 2 -- $(top_srcdir)/tests/ranks/run 4 tests/ranks/property $${YOKE_SOAK:+10}200' \
	'$(WITH_HOSTS) --slots 4 2 -- $(top_srcdir)/tests/ranks/run 8 tests/ranks/property $${YOKE_SOAK:+10}60' \
	'$(WITH_HOSTS) 3 -- $(top_srcdir)/tests/ranks/run 6 tests/ranks/property $${YOKE_SOAK:+10}100' \
	'$(WITH_HOSTS) 2 -- $(top_srcdir)/tests/ranks/run 4 tests/ranks/moves' \
	'$(WITH_HOSTS) 2 -- $(top_srcdir)/tests/ranks/run -a 4 tests/ranks/mismatch'
