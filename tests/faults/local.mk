# tests/faults: jobs that are harmed, machines that are wrong, words that are misspelt.
EXTRA_DIST += tests/faults/usage tests/faults/launch tests/faults/shrink tests/faults/trace tests/faults/room tests/faults/meetings
EXTRA_PROGRAMS += tests/faults/victim tests/faults/leaver tests/faults/survivor tests/faults/harm tests/faults/bare tests/faults/meeting tests/faults/starter tests/faults/reuse tests/faults/signal
tests_faults_starter_CPPFLAGS = $(AM_CPPFLAGS) $(MPICH_CFLAGS)
tests_faults_starter_LDADD = $(LIBYOKE_COMM) $(LIBYOKE) $(MPICH_LIBS)
tests_faults_victim_CPPFLAGS = $(AM_CPPFLAGS) $(MPICH_CFLAGS)
tests_faults_victim_LDADD = $(LIBYOKE_COMM) $(LIBYOKE) $(MPICH_LIBS)
tests_faults_meeting_CPPFLAGS = $(AM_CPPFLAGS) $(MPICH_CFLAGS)
tests_faults_meeting_LDADD = $(LIBYOKE_COMM) $(LIBYOKE) $(MPICH_LIBS)
tests_faults_survivor_CPPFLAGS = $(AM_CPPFLAGS) $(MPICH_CFLAGS)
tests_faults_survivor_CFLAGS = $(AM_CFLAGS) -pthread
tests_faults_survivor_LDADD = $(LIBYOKE_COMM) $(LIBYOKE) $(MPICH_LIBS) -lpthread
tests_faults_signal_SOURCES = tests/faults/signal.c tests/faults/processes.h
tests_faults_signal_LDADD = libflight.la $(LIBYOKE)
tests_faults_reuse_SOURCES = tests/faults/reuse.c tests/faults/processes.h
tests_faults_reuse_LDADD = libflight.la $(LIBYOKE)
tests_faults_harm_SOURCES = tests/faults/harm.c tests/faults/processes.h tests/faults/shared_files.h cli/launch/shared_memory.c
tests_faults_harm_LDADD = libflight.la $(LIBYOKE)
tests_faults_bare_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_faults_bare_LDADD = libflight.la $(LIBYOKE) $(JANSSON_LIBS)
YOKE_TESTS += \
	"$(top_srcdir)/tests/faults/usage ./yoke" \
	"$(top_srcdir)/tests/faults/launch ./yoke tests/faults/starter" \
	"$(top_srcdir)/tests/faults/trace ./yoke tests/faults/victim" \
	"quiet $(top_srcdir)/tests/faults/meetings ./yoke tests/faults/meeting" \
	"tests/faults/bare ./yoke tests/faults/victim $${YOKE_SOAK:+1}8" \
	"$(top_srcdir)/tests/faults/room ./yoke $(top_srcdir)/tests/ranks/run tests/ranks/property" \
	"tests/faults/reuse ./yoke" \
	"tests/faults/harm ./yoke tests/faults/victim kill $${YOKE_SOAK:+10}3" \
	"tests/faults/harm ./yoke tests/faults/victim stop $${YOKE_SOAK:+1}2" \
	"tests/faults/harm ./yoke tests/faults/victim agent 2" \
	"YOKE_LAUNCHER=hydra tests/faults/harm ./yoke tests/faults/victim launcher $${YOKE_SOAK:+1}1" \
	"YOKE_LAUNCHER=hydra tests/faults/harm ./yoke tests/faults/victim proxy $${YOKE_SOAK:+1}1" \
	"soak YOKE_LAUNCHER=hydra tests/faults/harm ./yoke tests/faults/leaver proxy 3" \
	"YOKE_LAUNCHER=hydra tests/faults/harm ./yoke tests/faults/victim holder $${YOKE_SOAK:+1}1" \
	"tests/faults/harm ./yoke tests/faults/victim supervisor $${YOKE_SOAK:+1}2" \
	"soak tests/faults/harm ./yoke tests/faults/leaver supervisor 2" \
	"soak YOKE_LAUNCHER=hydra tests/faults/harm ./yoke tests/faults/victim kill 12" \
	"soak YOKE_LAUNCHER=hydra tests/faults/harm ./yoke tests/faults/victim stop 11" \
	"soak YOKE_LAUNCHER=hydra tests/faults/harm ./yoke tests/faults/victim agent 1" \
	"soak YOKE_LAUNCHER=hydra tests/faults/harm ./yoke tests/faults/victim supervisor 1" \
	"$(top_srcdir)/tests/faults/shrink ./yoke tests/faults/survivor kill $${YOKE_SOAK:+10}2" \
	"$(top_srcdir)/tests/faults/shrink ./yoke tests/faults/survivor stop $${YOKE_SOAK:+10}1" \
	"$(top_srcdir)/tests/faults/shrink ./yoke tests/faults/survivor exit $${YOKE_SOAK:+10}1" \
	"$(top_srcdir)/tests/faults/shrink ./yoke tests/faults/survivor abort 1" \
	"SURVIVOR_HOSTS=aabbab $(top_srcdir)/tests/faults/shrink ./yoke tests/faults/survivor kill $${YOKE_SOAK:+10}2" \
	"soak SURVIVOR_HOSTS=abcdef $(top_srcdir)/tests/faults/shrink ./yoke tests/faults/survivor kill 102"
