# tests/ranks: what several ranks do together. tests/ranks/run N PROGRAM prints one TAP stream and ends in time.
EXTRA_DIST += tests/ranks/run tests/ranks/auto_command tests/ranks/compare_command tests/ranks/no_memory_command tests/ranks/ends tests/ranks/ranks.h tests/ranks/calls.h
ranks_programs = tests/ranks/reductions tests/ranks/moves tests/ranks/groups tests/ranks/split tests/ranks/explain tests/ranks/islands tests/ranks/shares tests/ranks/mismatch tests/ranks/devices tests/ranks/queues tests/ranks/copies tests/ranks/lost_copies tests/ranks/slow_device tests/ranks/verdicts \
	tests/ranks/agent tests/ranks/victim tests/ranks/faults tests/ranks/property tests/ranks/inject \
	tests/ranks/illegal tests/ranks/threads tests/ranks/room tests/ranks/footprint tests/ranks/stray tests/ranks/no_memory
EXTRA_PROGRAMS += $(ranks_programs)
RANKS_CFLAGS = $(AM_CFLAGS) $(MPICH_CFLAGS)
RANKS_LDADD = $(LIBYOKE_COMM) $(LIBYOKE) $(MPICH_LIBS) -lm
tests_ranks_reductions_CFLAGS = $(RANKS_CFLAGS)
tests_ranks_reductions_LDADD = $(RANKS_LDADD)
tests_ranks_moves_CFLAGS = $(RANKS_CFLAGS)
tests_ranks_moves_LDADD = $(RANKS_LDADD)
tests_ranks_split_CFLAGS = $(RANKS_CFLAGS)
tests_ranks_split_LDADD = $(RANKS_LDADD)
tests_ranks_explain_CFLAGS = $(RANKS_CFLAGS)
tests_ranks_explain_LDADD = $(RANKS_LDADD)
tests_ranks_islands_CFLAGS = $(RANKS_CFLAGS)
tests_ranks_islands_LDADD = $(RANKS_LDADD)
tests_ranks_shares_CFLAGS = $(RANKS_CFLAGS)
tests_ranks_shares_LDADD = $(RANKS_LDADD)
tests_ranks_groups_CFLAGS = $(RANKS_CFLAGS)
tests_ranks_groups_LDADD = $(RANKS_LDADD)
tests_ranks_stray_CFLAGS = $(RANKS_CFLAGS)
tests_ranks_stray_LDADD = $(RANKS_LDADD)
tests_ranks_footprint_CFLAGS = $(RANKS_CFLAGS)
tests_ranks_footprint_LDADD = $(RANKS_LDADD)
# scarce.c is called before a sanitizer is ready.
check_LTLIBRARIES += tests/ranks/libscarce_linked.la
tests_ranks_libscarce_linked_la_SOURCES = tests/ranks/scarce.h tests/ranks/scarce.c
tests_ranks_libscarce_linked_la_CFLAGS = $(AM_CFLAGS) -fno-sanitize=all
if SANITIZERS
tests_ranks_libscarce_linked_la_CFLAGS += -DSCARCE_SANITIZED
endif
tests_ranks_no_memory_SOURCES = tests/ranks/ranks.h tests/ranks/scarce.h tests/ranks/no_memory.c
tests_ranks_no_memory_CFLAGS = $(RANKS_CFLAGS)
tests_ranks_no_memory_LDADD = tests/ranks/libscarce_linked.la $(RANKS_LDADD) -ldl
tests_ranks_property_CFLAGS = $(RANKS_CFLAGS)
tests_ranks_property_LDADD = $(RANKS_LDADD)
tests_ranks_mismatch_CFLAGS = $(RANKS_CFLAGS)
tests_ranks_mismatch_LDADD = $(RANKS_LDADD)
tests_ranks_inject_CFLAGS = $(RANKS_CFLAGS)
tests_ranks_inject_LDADD = $(RANKS_LDADD)
tests_ranks_illegal_CFLAGS = $(RANKS_CFLAGS)
tests_ranks_illegal_LDADD = $(RANKS_LDADD)
tests_ranks_threads_CFLAGS = $(RANKS_CFLAGS) -pthread
tests_ranks_threads_LDADD = $(RANKS_LDADD) -lpthread
tests_ranks_room_CFLAGS = $(RANKS_CFLAGS)
tests_ranks_room_LDADD = $(RANKS_LDADD)
tests_ranks_victim_CFLAGS = $(RANKS_CFLAGS)
tests_ranks_victim_LDADD = $(RANKS_LDADD)
tests_ranks_slow_device_CFLAGS = $(RANKS_CFLAGS)
tests_ranks_slow_device_LDADD = $(RANKS_LDADD)
tests_ranks_devices_CFLAGS = $(RANKS_CFLAGS)
tests_ranks_devices_LDADD = $(RANKS_LDADD)
tests_ranks_copies_CFLAGS = $(RANKS_CFLAGS) -pthread
tests_ranks_copies_LDADD = $(RANKS_LDADD) -lpthread -ldl
tests_ranks_queues_CFLAGS = $(RANKS_CFLAGS) -pthread
tests_ranks_queues_LDADD = $(RANKS_LDADD) -lpthread -ldl
tests_ranks_lost_copies_CFLAGS = $(RANKS_CFLAGS) -pthread
tests_ranks_lost_copies_LDADD = $(RANKS_LDADD) -lpthread -ldl
tests_ranks_verdicts_CFLAGS = $(RANKS_CFLAGS) -pthread
tests_ranks_verdicts_LDADD = $(RANKS_LDADD) -lpthread
# These start and watch ranks, and know no MPI.
tests_ranks_agent_LDADD = libflight.la $(LIBYOKE)
tests_ranks_faults_LDADD = libflight.la $(LIBYOKE)
# This starts the command and reads its JSON.
EXTRA_PROGRAMS += tests/ranks/bench_command
tests_ranks_bench_command_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_ranks_bench_command_LDADD = $(JANSSON_LIBS)
check_LTLIBRARIES += tests/ranks/libwrong.la
tests_ranks_libwrong_la_SOURCES = tests/ranks/wrong.c
tests_ranks_libwrong_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPICH_CFLAGS)
tests_ranks_libwrong_la_LDFLAGS = -module -avoid-version -rpath /nowhere
check_LTLIBRARIES += tests/ranks/libscarce.la
tests_ranks_libscarce_la_SOURCES = tests/ranks/scarce.h tests/ranks/scarce.c
tests_ranks_libscarce_la_LDFLAGS = -module -avoid-version -rpath /nowhere
tests_ranks_libscarce_la_LIBADD = -ldl
YOKE_TESTS += \
	'tests/ranks/bench_command ./yoke 2' \
	'tests/ranks/bench_command ./yoke 4' \
	'$(top_srcdir)/tests/ranks/run 1 tests/ranks/reductions 10000000' \
	'$(top_srcdir)/tests/ranks/run 2 tests/ranks/reductions 10000000' \
	'$(top_srcdir)/tests/ranks/run 3 tests/ranks/reductions' \
	'$(top_srcdir)/tests/ranks/run 4 tests/ranks/reductions' \
	'soak $(top_srcdir)/tests/ranks/run 5 tests/ranks/reductions' \
	'soak $(top_srcdir)/tests/ranks/run 6 tests/ranks/reductions' \
	'soak $(top_srcdir)/tests/ranks/run 7 tests/ranks/reductions' \
	'long $(top_srcdir)/tests/ranks/run 8 tests/ranks/reductions' \
	'$(top_srcdir)/tests/ranks/run 1 tests/ranks/property $${YOKE_SOAK:+10}150' \
	'$(top_srcdir)/tests/ranks/run 2 tests/ranks/property $${YOKE_SOAK:+10}450' \
	'$(top_srcdir)/tests/ranks/run 3 tests/ranks/property $${YOKE_SOAK:+10}450' \
	'$(top_srcdir)/tests/ranks/run 5 tests/ranks/property $${YOKE_SOAK:+10}300' \
	'$(top_srcdir)/tests/ranks/run 8 tests/ranks/property $${YOKE_SOAK:+10}200' \
	'$(top_srcdir)/tests/ranks/run -H aabb 4 tests/ranks/reductions 3000000' \
	'long $(top_srcdir)/tests/ranks/run -H abcabc 6 tests/ranks/reductions 1000000' \
	'$(top_srcdir)/tests/ranks/run -H aabbc 5 tests/ranks/reductions' \
	'$(top_srcdir)/tests/ranks/run -H abab 4 tests/ranks/property $${YOKE_SOAK:+10}200' \
	'$(top_srcdir)/tests/ranks/run -H aaabbc 6 tests/ranks/property $${YOKE_SOAK:+10}200' \
	'$(top_srcdir)/tests/ranks/run -H aabbccdd 8 tests/ranks/property $${YOKE_SOAK:+10}20' \
	'soak $(top_srcdir)/tests/ranks/run -H aabbcdefg 9 tests/ranks/property 300' \
	'soak $(top_srcdir)/tests/ranks/run -H aabcdefgh 9 tests/ranks/property 300' \
	'$(top_srcdir)/tests/ranks/run -H aaaabbbb 8 tests/ranks/property $${YOKE_SOAK:+10}150' \
	'$(top_srcdir)/tests/ranks/ends' \
	'$(top_srcdir)/tests/ranks/auto_command $(top_srcdir)/tests/unit/two_sockets.xml' \
	'$(top_srcdir)/tests/ranks/compare_command' \
	'$(top_srcdir)/tests/ranks/run 3 tests/ranks/footprint' \
	'$(top_srcdir)/tests/ranks/run -H aab 3 tests/ranks/footprint' \
	'$(top_srcdir)/tests/ranks/run 1 tests/ranks/moves' \
	'$(top_srcdir)/tests/ranks/run 2 tests/ranks/moves' \
	'$(top_srcdir)/tests/ranks/run 5 tests/ranks/moves' \
	'$(top_srcdir)/tests/ranks/run -H aaaabb 6 tests/ranks/moves' \
	'$(top_srcdir)/tests/ranks/run 8 tests/ranks/moves' \
	'$(top_srcdir)/tests/ranks/run -a 2 tests/ranks/explain' \
	'$(top_srcdir)/tests/ranks/run -a 4 tests/ranks/explain' \
	'$(top_srcdir)/tests/ranks/run 4 tests/ranks/islands' \
	'soak $(top_srcdir)/tests/ranks/run 3 tests/ranks/islands' \
	'soak $(top_srcdir)/tests/ranks/run 5 tests/ranks/islands' \
	'soak $(top_srcdir)/tests/ranks/run 8 tests/ranks/islands' \
	'$(top_srcdir)/tests/ranks/run 8 tests/ranks/islands members' \
	'YOKE_EMULATE=cuda:9.0 YOKE_EMULATE_SHARE=$$TMPDIR/share $(top_srcdir)/tests/ranks/run 4 tests/ranks/islands vendors cuda:0 host' \
	'soak YOKE_EMULATE=cuda:9.0 YOKE_EMULATE_SHARE=$$TMPDIR/share $(top_srcdir)/tests/ranks/run 4 tests/ranks/islands vendors cuda:0 opencl:0' \
	'YOKE_ISLAND=vendor YOKE_ISLAND_OF=a*3,b $(top_srcdir)/tests/ranks/run 4 tests/ranks/property $${YOKE_SOAK:+10}100' \
	'soak YOKE_ISLAND=vendor YOKE_ISLAND_OF=a,a,b,b,c $(top_srcdir)/tests/ranks/run 5 tests/ranks/property $${YOKE_SOAK:+10}100' \
	'soak YOKE_ISLAND=vendor YOKE_ISLAND_OF=a,b,a,b,c,a,c,d $(top_srcdir)/tests/ranks/run 8 tests/ranks/property $${YOKE_SOAK:+10}100' \
	'soak YOKE_ISLAND=vendor YOKE_ISLAND_OF=a*2,b*4,c $(top_srcdir)/tests/ranks/run -H aaaabbb 7 tests/ranks/property $${YOKE_SOAK:+10}100' \
	'soak YOKE_ISLAND=vendor YOKE_ISLAND_OF=a*5,b*2 $(top_srcdir)/tests/ranks/run 7 tests/ranks/shares 101' \
	'soak YOKE_ISLAND=off $(top_srcdir)/tests/ranks/run -H aabb 4 tests/ranks/property $${YOKE_SOAK:+10}100' \
	'soak YOKE_ISLAND=vendor YOKE_EMULATE=cuda:9.0 YOKE_EMULATE_SHARE=$$TMPDIR/share $(top_srcdir)/tests/ranks/run 4 tests/ranks/property $${YOKE_SOAK:+10}40 - cuda:0 host' \
	'YOKE_ISLAND_OF=a,a,b,b $(top_srcdir)/tests/ranks/run -a 4 tests/ranks/inject $${YOKE_SOAK:+2}1' \
	'$(top_srcdir)/tests/ranks/run 2 tests/ranks/shares $${YOKE_SOAK:+10}1' \
	'$(top_srcdir)/tests/ranks/run 5 tests/ranks/shares $${YOKE_SOAK:+10}1' \
	'$(top_srcdir)/tests/ranks/run -H aabb 4 tests/ranks/shares $${YOKE_SOAK:+10}1' \
	'soak $(top_srcdir)/tests/ranks/run -H aaabbcc 7 tests/ranks/shares 101' \
	'$(top_srcdir)/tests/ranks/run -a 1 tests/ranks/groups' \
	'$(top_srcdir)/tests/ranks/run -a 2 tests/ranks/groups' \
	'$(top_srcdir)/tests/ranks/run -a 5 tests/ranks/groups' \
	'$(top_srcdir)/tests/ranks/run 1 tests/ranks/split' \
	'$(top_srcdir)/tests/ranks/run 2 tests/ranks/split' \
	'$(top_srcdir)/tests/ranks/run 5 tests/ranks/split' \
	'$(top_srcdir)/tests/ranks/run 8 tests/ranks/split' \
	'UCX_TLS=tcp,self $(top_srcdir)/tests/ranks/run -a -H abcd 4 tests/ranks/split' \
	'$(top_srcdir)/tests/ranks/run -a -H aabab 5 tests/ranks/split' \
	'$(top_srcdir)/tests/ranks/run -a -H aabb 4 tests/ranks/groups' \
	'$(top_srcdir)/tests/ranks/run -a -H aabb 4 tests/ranks/explain' \
	'$(top_srcdir)/tests/ranks/run 2 tests/ranks/devices host opencl:0' \
	'YOKE_OPENCL_ADDRESS=buffer $(top_srcdir)/tests/ranks/run 2 tests/ranks/devices opencl:0 reference' \
	'YOKE_SUM_SHARES=0:1 YOKE_OPENCL_ADDRESS=buffer $(top_srcdir)/tests/ranks/run 2 tests/ranks/devices opencl:0 reference' \
	'YOKE_OPENCL_ADDRESS=buffer $(top_srcdir)/tests/ranks/run -H aabb 4 tests/ranks/devices opencl:0' \
	'YOKE_EMULATE=cuda:9.0 $(top_srcdir)/tests/ranks/run 2 tests/ranks/devices host cuda:0' \
	'YOKE_EMULATE=cuda:9.0 YOKE_EMULATE_SHARE=$$TMPDIR/share YOKE_EMULATE_WAIT=20 $(top_srcdir)/tests/ranks/run -H aabb 4 tests/ranks/devices cuda:0' \
	'YOKE_EMULATE=cuda:9.0 $(top_srcdir)/tests/ranks/run -a 2 tests/ranks/copies' \
	'YOKE_EMULATE=cuda:9.0 YOKE_EMULATE_FAIL=no-register@1 $(top_srcdir)/tests/ranks/run -a 2 tests/ranks/copies slots' \
	'YOKE_EMULATE=cuda:9.0 YOKE_EMULATE_FAIL=ecc@40 $(top_srcdir)/tests/ranks/run -a 2 tests/ranks/copies fault' \
	'soak YOKE_EMULATE=cuda:9.0 YOKE_EMULATE_FAIL=no-lock@2 $(top_srcdir)/tests/ranks/run -H aabb 4 tests/ranks/devices cuda:0' \
	'soak YOKE_EMULATE=cuda:9.0 YOKE_EMULATE_FAIL=no-register@1 YOKE_EMULATE_DELAY_US=300 $(top_srcdir)/tests/ranks/run 2 tests/ranks/property $${YOKE_SOAK:+10}60 - cuda:0 host' \
	'soak YOKE_EMULATE=cuda:9.0 YOKE_EMULATE_FAIL=no-lock@2 YOKE_EMULATE_DELAY_US=300 $(top_srcdir)/tests/ranks/run -H aab 3 tests/ranks/property $${YOKE_SOAK:+10}40 - cuda:0 cuda:0 host' \
	'YOKE_EMULATE=cuda:9.0 YOKE_EMULATE_HOLD=60 CUDA_DEVICE_MAX_CONNECTIONS=1 $(top_srcdir)/tests/ranks/run 2 tests/ranks/queues' \
	'YOKE_EMULATE=cuda:9.0 YOKE_EMULATE_HOLD=60 $(top_srcdir)/tests/ranks/run -H ab 2 tests/ranks/queues' \
	'YOKE_EMULATE=cuda:9.0 $(top_srcdir)/tests/ranks/run -a 2 tests/ranks/lost_copies out' \
	'YOKE_EMULATE=cuda:9.0 $(top_srcdir)/tests/ranks/run -a 2 tests/ranks/lost_copies in' \
	'YOKE_EMULATE=cuda:9.0 YOKE_EMULATE_DELAY_US=300 $(top_srcdir)/tests/ranks/run 2 tests/ranks/property $${YOKE_SOAK:+10}20 - cuda:0 host' \
	'$(top_srcdir)/tests/ranks/run -a 2 tests/ranks/slow_device' \
	'$(top_srcdir)/tests/ranks/run -a -H ab 2 tests/ranks/slow_device' \
	'$(top_srcdir)/tests/ranks/run 3 tests/ranks/property $${YOKE_SOAK:+10}100 - opencl:0 host reference' \
	'YOKE_OPENCL_ADDRESS=buffer $(top_srcdir)/tests/ranks/run 2 tests/ranks/property $${YOKE_SOAK:+10}150 - opencl:0' \
	'YOKE_OPENCL_ADDRESS=buffer $(top_srcdir)/tests/ranks/run -H aabb 4 tests/ranks/property $${YOKE_SOAK:+10}80 - opencl:0 host' \
	'$(top_srcdir)/tests/ranks/run -a 2 tests/ranks/mismatch' \
	'soak $(top_srcdir)/tests/ranks/run -a 3 tests/ranks/mismatch' \
	'$(top_srcdir)/tests/ranks/run -a 4 tests/ranks/mismatch' \
	'soak $(top_srcdir)/tests/ranks/run -a -H abc 3 tests/ranks/mismatch' \
	'$(top_srcdir)/tests/ranks/run -a -H aabb 4 tests/ranks/mismatch' \
	'$(top_srcdir)/tests/ranks/run -a 2 tests/ranks/inject' \
	'soak $(top_srcdir)/tests/ranks/run -a 3 tests/ranks/inject' \
	'$(top_srcdir)/tests/ranks/run -a -H abc 3 tests/ranks/inject' \
	'$(top_srcdir)/tests/ranks/run -a 2 tests/ranks/illegal $${YOKE_SOAK:+10}20' \
	'soak $(top_srcdir)/tests/ranks/run -a 3 tests/ranks/illegal 1020' \
	'$(top_srcdir)/tests/ranks/run -a 4 tests/ranks/illegal $${YOKE_SOAK:+10}10' \
	'$(top_srcdir)/tests/ranks/run -a -H aabb 4 tests/ranks/illegal $${YOKE_SOAK:+100}8' \
	'soak $(top_srcdir)/tests/ranks/run -a -H abc 3 tests/ranks/illegal 1015' \
	'$(top_srcdir)/tests/ranks/run 3 tests/ranks/room' \
	'$(top_srcdir)/tests/ranks/run -a 2 tests/ranks/no_memory' \
	'soak $(top_srcdir)/tests/ranks/run -a 3 tests/ranks/no_memory' \
	'$(top_srcdir)/tests/ranks/run -a -H abb 3 tests/ranks/no_memory' \
	'YOKE_OPENCL_ADDRESS=buffer $(top_srcdir)/tests/ranks/run -a 2 tests/ranks/no_memory opencl:0' \
	'$(top_srcdir)/tests/ranks/run -a 2 tests/ranks/threads opencl:0' \
	'$(top_srcdir)/tests/ranks/run -a 2 tests/ranks/threads host' \
	'YOKE_EMULATE=cuda:9.0 YOKE_EMULATE_WAIT=20 $(top_srcdir)/tests/ranks/run -a 2 tests/ranks/threads cuda:0' \
	'long quiet $(top_srcdir)/tests/ranks/run -a 3 tests/ranks/verdicts' \
	'soak quiet $(top_srcdir)/tests/ranks/run -a -H abc 3 tests/ranks/verdicts' \
	'soak quiet $(top_srcdir)/tests/ranks/run -a -H abba 4 tests/ranks/verdicts' \
	'tests/ranks/faults $${YOKE_SOAK:+10}' \
	'soak UCX_TLS=^cma tests/ranks/faults $${YOKE_SOAK:+10}' \
	'UCX_TLS=tcp,self tests/ranks/faults $${YOKE_SOAK:+10}'
