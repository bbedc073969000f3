# tests/hosts: several hosts on one machine. with_hosts makes them; remote is their ssh. See also tests/faults/harm.
EXTRA_DIST += tests/hosts/auto tests/hosts/with_hosts tests/hosts/start tests/hosts/slow tests/hosts/limit tests/hosts/cut tests/hosts/finalize
EXTRA_PROGRAMS += tests/hosts/remote tests/hosts/finalizer tests/hosts/measured tests/hosts/ports
tests_hosts_finalizer_CPPFLAGS = $(AM_CPPFLAGS) $(MPICH_CFLAGS)
tests_hosts_finalizer_LDADD = $(LIBYOKE_COMM) $(LIBYOKE) $(MPICH_LIBS)
tests_hosts_measured_SOURCES = tests/ranks/ranks.h tests/hosts/measured.c
tests_hosts_measured_CFLAGS = $(RANKS_CFLAGS)
tests_hosts_measured_LDADD = $(RANKS_LDADD)
WITH_HOSTS = $(top_srcdir)/tests/hosts/with_hosts
HARM_HOSTS = VICTIM_BYTES=16777216 $(WITH_HOSTS) 2 -- tests/faults/harm ./yoke tests/faults/victim
SHRINK = $(top_srcdir)/tests/faults/shrink ./yoke tests/faults/survivor
YOKE_TESTS += \
	"long $(top_srcdir)/tests/hosts/start ./yoke" \
	"soak $(top_srcdir)/tests/hosts/auto ./yoke $(top_srcdir)/tests/unit/two_sockets.xml" \
	"tests/hosts/ports ./yoke tests/faults/victim" \
	'$(WITH_HOSTS) 2 -- tests/hosts/ports ./yoke tests/faults/victim' \
	'$(WITH_HOSTS) 2 -- $(top_srcdir)/tests/ranks/run 4 tests/ranks/property $${YOKE_SOAK:+10}100' \
	'$(WITH_HOSTS) --slots 4 2 -- $(top_srcdir)/tests/ranks/run 8 tests/ranks/property $${YOKE_SOAK:+10}40' \
	'$(WITH_HOSTS) 3 -- $(top_srcdir)/tests/ranks/run 6 tests/ranks/property $${YOKE_SOAK:+10}30' \
	'$(WITH_HOSTS) 2 -- $(top_srcdir)/tests/ranks/run 4 tests/ranks/moves' \
	'soak $(WITH_HOSTS) 2 -- $(top_srcdir)/tests/ranks/run 4 tests/ranks/reductions' \
	'$(WITH_HOSTS) 2 -- $(top_srcdir)/tests/ranks/run -a 3 tests/ranks/mismatch' \
	'long quiet $(WITH_HOSTS) 2 -- $(top_srcdir)/tests/ranks/run -a 3 tests/ranks/verdicts' \
	'$(HARM_HOSTS) kill $${YOKE_SOAK:+10}2' \
	'soak $(HARM_HOSTS) stop 102' \
	'$(HARM_HOSTS) agent $${YOKE_SOAK:+1}1' \
	'soak $(HARM_HOSTS) holder 11' \
	'soak $(HARM_HOSTS) proxy 11' \
	'soak $(HARM_HOSTS) launcher 11' \
	'soak $(HARM_HOSTS) supervisor 11' \
	'$(HARM_HOSTS) link 1' \
	'$(HARM_HOSTS) host 1' \
	'quiet soak $(WITH_HOSTS) 3 -- $(top_srcdir)/tests/faults/meetings ./yoke tests/faults/meeting' \
	'long $(WITH_HOSTS) 2 -- $(top_srcdir)/tests/hosts/cut ./yoke tests/faults/victim' \
	'long $(WITH_HOSTS) 2 -- $(top_srcdir)/tests/hosts/finalize ./yoke tests/hosts/finalizer' \
	'$(WITH_HOSTS) 2 -- $(SHRINK) kill $${YOKE_SOAK:+10}1' \
	'soak $(WITH_HOSTS) 3 -- $(SHRINK) kill 103' \
	'soak $(WITH_HOSTS) 2 -- $(SHRINK) stop 101' \
	'soak $(WITH_HOSTS) 2 -- $(SHRINK) exit 101' \
	'soak $(WITH_HOSTS) 2 -- $(SHRINK) abort 1' \
	'$(WITH_HOSTS) 2 -- $(SHRINK) host 1' \
	'soak $(WITH_HOSTS) 3 -- $(SHRINK) host 1' \
	'$(WITH_HOSTS) 2 -- $(SHRINK) link 1' \
	'quiet $(WITH_HOSTS) --rate 100mbit 2 -- $(top_srcdir)/tests/hosts/limit ./yoke' \
	'quiet $(WITH_HOSTS) --rate 1mbit 2 -- $(top_srcdir)/tests/ranks/run 4 tests/hosts/measured 0.000125' \
	'soak $(WITH_HOSTS) --rate 1mbit 2 -- $(top_srcdir)/tests/hosts/slow ./yoke tests/faults/victim 1048576'
