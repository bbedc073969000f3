# libyoke-train: layers, models, data, optimizer, checkpoints, loop.
lib_LTLIBRARIES += libyoke-train.la
pkgconfig_DATA += train/libyoke-train.pc
# what models are made of
libyoke_train_la_SOURCES += \
	train/layers/embedding.c train/layers/gpt2_attention.c train/layers/gpt2_check.c train/layers/gpt2_sublayer.c train/layers/gpt2_mlp.c \
	train/layers/head.c train/layers/layers.h train/layers/linear.c train/layers/llama_attention.c train/layers/llama_check.c \
	train/layers/llama_sublayer.c train/layers/llama_mlp.c train/layers/gpt2_norm.c train/layers/llama_norm.c \
	train/layers/tensor.c train/layers/vocabulary.c
# kinds of models, each in its own file
libyoke_train_la_SOURCES += train/models/gpt2.c train/models/llama.c train/models/mistral.c train/models/qwen2.c
# what all models share: the list of layers, the list of kinds, a model's files
libyoke_train_la_SOURCES += \
	train/models/companions.c train/models/companions.h train/models/kind.h train/models/kinds.h train/models/llama.h \
	train/models/model.c train/models/model.h train/models/model_files.c train/models/model_files.h
# plan.json
libyoke_train_la_SOURCES += train/plan/run_plan.c train/plan/run_plan.h
# the public object: a plan, ranks, a step, what replicas divide, memory
libyoke_train_la_SOURCES += \
	train/trainer/facts.c train/trainer/facts.h train/trainer/loss_scale.c train/trainer/memory.c train/trainer/memory.h train/trainer/plan_rank.c train/trainer/plan_place.c train/trainer/plan_run.c train/trainer/key.h train/trainer/key.c train/trainer/planned.h train/trainer/planned.c train/trainer/counted.h train/trainer/counted.c train/trainer/segment.c train/trainer/plan_schedule.c \
	train/trainer/ranks.c train/trainer/remedy.c train/trainer/replicas.c train/trainer/rounding.c train/trainer/step.c \
	train/trainer/tied.c train/trainer/timing.c train/trainer/trace_back.c train/trainer/trainer.c train/trainer/trainer.h \
	train/trainer/weights.c
# what the operating system says of a rank's time
libyoke_train_la_SOURCES += train/trainer/usage.c train/trainer/usage.h
# what the command does with a trainer: data, places, shares, steps, checkpoints, validation and a sample
libyoke_train_la_SOURCES += \
	train/run/audits.c train/run/black_box.c train/run/black_box.h train/run/cuts.c train/run/divide_work.c train/run/division.c train/run/division.h train/run/division_text.c train/run/trainer_config.c train/run/checkpoints.c train/run/encode_text.c train/run/evaluate.c train/run/forecast.c \
	train/run/forecast.h train/run/dashboard_settings.c train/run/dashboards.c train/run/dashboards.h \
	train/run/loop.c train/run/loop.h train/run/measure_devices.c train/run/metrics_file.c train/run/metrics.c \
	train/run/metrics.h train/run/optimizer_shards.c train/run/place_ranks.c \
	train/run/learning_rate.c train/run/report.c train/run/step_parts.c train/run/step_parts.h train/run/products.c train/run/sample.c train/run/sample.h train/run/peaks_and_timeline.c
# event files and metrics that other programs show: docs/DASHBOARDS.md
libyoke_train_la_SOURCES += \
	train/dashboards/exposition.c train/dashboards/exposition.h train/dashboards/gradients.c \
	train/dashboards/gradients.h train/dashboards/tfevents.c train/dashboards/tfevents.h
# when the instructions of some steps ran, on all ranks
libyoke_train_la_SOURCES += \
	train/timeline/costs.c train/timeline/json.c train/timeline/timeline.c train/timeline/timeline.h
# a cluster, the prediction of a step on it, and the search for the fastest layout
libyoke_train_la_SOURCES += train/search/choices.c train/search/choices.h
libyoke_train_la_SOURCES += train/search/between.c train/search/bounds_bubble.c train/search/bounds_inside.h train/search/search_bubble.c train/search/bounds_shares.c
libyoke_train_la_SOURCES += train/search/bounds.c train/search/bounds.h train/search/search.c train/search/search.h train/search/search_inside.h train/search/search_settings.c train/search/search_space.c train/search/cluster.c train/search/cluster.h train/search/layout.c train/search/layout.h train/search/predict.c train/search/predict.h train/search/predict_costs.c train/search/predict_inside.h train/search/predict_unit.c train/search/sums.c
# a cluster from measurements
libyoke_train_la_SOURCES += train/search/measured.c train/search/measured.h
# what a change of a limit or of the cluster would gain
libyoke_train_la_SOURCES += train/search/advice.c train/search/advice.h
# the file of a cluster, and the arithmetic of goals
libyoke_train_la_SOURCES += train/search/cluster_file.h train/search/cluster_read.c train/search/cluster_write.c train/search/kernel_speeds.c \
	train/search/goal.c train/search/goal.h train/search/units.c train/search/units.h train/files/yaml.c train/files/yaml.h
# the black box of a run
# why a run left its path
libyoke_train_la_SOURCES += train/postmortem/facts.c train/postmortem/inside.h train/postmortem/judge.c train/postmortem/look.c train/postmortem/postmortem.h train/postmortem/replay.c
libyoke_train_la_SOURCES += train/postmortem/check.c train/postmortem/compare.c train/postmortem/formulas.c train/postmortem/formulas.h train/postmortem/layout.c train/postmortem/layout.h train/postmortem/weights.c train/postmortem/end.c
libyoke_train_la_SOURCES += train/blackbox/box.h train/blackbox/merge.c train/blackbox/read.c train/blackbox/ring.c train/blackbox/rule.c
# why a step takes as long as it does
libyoke_train_la_SOURCES += train/diagnose/causes.c train/diagnose/diagnose.h train/diagnose/limit.c train/diagnose/model.c train/diagnose/model.h
libyoke_train_la_SOURCES += train/diagnose/network.c train/diagnose/ranks.c train/diagnose/remedies.h train/diagnose/rows.c
# tokens and tokenizers, and the yardstick for text
libyoke_train_la_SOURCES += \
	train/text/baseline.c train/text/baseline.h train/text/bpe.c train/text/bpe.h train/text/bpe_open.c train/text/bpe_bytes.c \
	train/text/bpe_inside.h train/text/bpe_json.c train/text/bpe_regex.c train/text/bpe_split.c \
	train/text/bpe_unicode.c train/text/bpe_unicode_table.h \
	train/text/skips.c train/text/skips.h train/text/text.c train/text/text.h train/text/tokens.c train/text/tokens.h
# formats: JSON, the fields of config.json, safetensors
libyoke_train_la_SOURCES += \
	train/files/config_places.c train/files/config_places.h train/files/foreign_weights.c train/files/foreign_weights.h \
	train/files/json.c train/files/json.h train/files/json_write.c train/files/map.c train/files/map.h \
	train/files/problems.c train/files/problems.h train/files/safetensors.c train/files/safetensors.h \
	train/files/safetensors_header.c train/files/safetensors_header.h train/files/safetensors_write.c
# checkpoints: docs/CHECKPOINTS.md
libyoke_train_la_SOURCES += \
	train/checkpoint/checkpoint.h train/checkpoint/claim.c train/checkpoint/compare.c \
	train/checkpoint/dealing.c train/checkpoint/dealing.h train/checkpoint/folder.c train/checkpoint/manifest.c \
	train/checkpoint/manifest.h train/checkpoint/open.c train/checkpoint/save.c train/checkpoint/shards.h
# models from and for other programs
libyoke_train_la_SOURCES += \
	train/exchange/companions.c train/exchange/companions.h train/exchange/convert.c train/exchange/convert.h \
	train/exchange/model_folder.c train/exchange/model_folder.h train/exchange/weights_file.c \
	train/exchange/weights_file.h
# the same numbers on all replicas, while a run trains
libyoke_train_la_SOURCES += train/audit/audit.c train/audit/audit.h train/audit/judge.c train/audit/replay.c train/audit/state.c
# the same numbers in every layout
libyoke_train_la_SOURCES += \
	train/parity/gates.h train/parity/inside.h train/parity/judge.c train/parity/layout.c train/parity/parity.h \
	train/parity/reference.c train/parity/run.c
libyoke_train_la_CFLAGS = $(AM_CFLAGS) $(MPICH_CFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS) $(PCRE2_CFLAGS) $(YAML_CFLAGS)
libyoke_train_la_LIBADD = $(LIBYOKE_COMM) $(LIBYOKE) $(JANSSON_LIBS) $(XXHASH_LIBS) $(PCRE2_LIBS) $(YAML_LIBS)
libyoke_train_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -Wl,--version-script=train/libyoke-train.map
libyoke_train_la_DEPENDENCIES = train/libyoke-train.map
include train/files/local.mk

# Tests of training that need neither MPI nor another process.
train_unit_programs = tests/unit/train_state tests/unit/train_layers tests/unit/train_shards tests/unit/train_program tests/unit/train_loop tests/unit/cuda_calls tests/unit/train_mesh tests/unit/train_memory tests/unit/train_planned tests/unit/plan_search tests/unit/plan_advice tests/unit/train_schedule \
	tests/unit/train_simulate tests/unit/train_balance tests/unit/cluster_file tests/unit/cluster_speeds tests/unit/measured_cluster tests/unit/goal tests/unit/published_tables
EXTRA_PROGRAMS += $(train_unit_programs)
YOKE_TESTS += $(train_unit_programs)
EXTRA_PROGRAMS += tests/unit/train_allocations
YOKE_TESTS += 'OMP_NUM_THREADS=3 tests/unit/train_allocations'
# These fsync a thousand times; what is shown does not depend on the disk.
checkpoint_unit_programs = tests/unit/checkpoint tests/unit/train_resume tests/unit/plan_edits
EXTRA_PROGRAMS += $(checkpoint_unit_programs)
YOKE_TESTS += 'TMPDIR=/dev/shm tests/unit/checkpoint' 'TMPDIR=/dev/shm tests/unit/train_resume' 'TMPDIR=/dev/shm tests/unit/plan_edits'
EXTRA_PROGRAMS += tests/unit/train_blackbox
tests_unit_train_blackbox_CFLAGS = $(TRAIN_TEST_CFLAGS) $(JANSSON_CFLAGS)
tests_unit_train_blackbox_LDADD = $(TRAIN_TEST_LDADD)
YOKE_TESTS += 'OMP_NUM_THREADS=1 TMPDIR=/dev/shm tests/unit/train_blackbox'
EXTRA_PROGRAMS += tests/unit/postmortem
tests_unit_postmortem_CFLAGS = $(TRAIN_TEST_CFLAGS)
tests_unit_postmortem_LDADD = $(TRAIN_TEST_LDADD)
YOKE_TESTS += tests/unit/postmortem
EXTRA_PROGRAMS += tests/unit/rounding_trial
YOKE_TESTS += 'POCL_MAX_PTHREAD_COUNT=1 tests/unit/rounding_trial opencl:0' 'YOKE_EMULATE=cuda:9.0 tests/unit/rounding_trial cuda:0' 'soak YOKE_EMULATE=hip:gfx90a tests/unit/rounding_trial hip:0'
tests_unit_rounding_trial_CFLAGS = $(TRAIN_TEST_CFLAGS)
tests_unit_rounding_trial_LDADD = $(TRAIN_TEST_LDADD)
EXTRA_PROGRAMS += tests/unit/planted_cuda
YOKE_TESTS += 'tests/unit/cuda_calls hip'
YOKE_TESTS += 'long tests/unit/planted_cuda'
tests_unit_planted_cuda_SOURCES = tests/unit/planted_cuda.c tests/unit/planted_set.h tests/unit/planted_run.h tests/unit/planted_leaks.h \
	tests/unit/planted_step.h
tests_unit_planted_cuda_LDADD = $(LIBYOKE_TRAIN) $(LIBYOKE) -lm
TRAIN_TEST_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
TRAIN_TEST_LDADD = $(LIBYOKE_TRAIN) $(LIBYOKE) $(CMOCKA_LIBS) -lm
tests_unit_published_tables_CFLAGS = $(TRAIN_TEST_CFLAGS)
tests_unit_published_tables_LDADD = $(TRAIN_TEST_LDADD)
tests_unit_goal_CFLAGS = $(TRAIN_TEST_CFLAGS)
tests_unit_goal_LDADD = $(TRAIN_TEST_LDADD)
tests_unit_cluster_speeds_CFLAGS = $(TRAIN_TEST_CFLAGS)
tests_unit_measured_cluster_CFLAGS = $(TRAIN_TEST_CFLAGS)
tests_unit_measured_cluster_LDADD = $(TRAIN_TEST_LDADD)
tests_unit_cluster_speeds_LDADD = $(TRAIN_TEST_LDADD)
tests_unit_cluster_file_CFLAGS = $(TRAIN_TEST_CFLAGS)
tests_unit_cluster_file_LDADD = $(TRAIN_TEST_LDADD)
tests_unit_train_state_CFLAGS = $(TRAIN_TEST_CFLAGS)
tests_unit_train_state_LDADD = $(TRAIN_TEST_LDADD)
tests_unit_train_layers_CFLAGS = $(TRAIN_TEST_CFLAGS)
tests_unit_train_layers_LDADD = $(TRAIN_TEST_LDADD)
tests_unit_train_shards_CFLAGS = $(TRAIN_TEST_CFLAGS)
tests_unit_train_shards_LDADD = $(TRAIN_TEST_LDADD)
tests_unit_train_mesh_CFLAGS = $(TRAIN_TEST_CFLAGS)
tests_unit_train_mesh_LDADD = $(TRAIN_TEST_LDADD)
tests_unit_train_program_CFLAGS = $(TRAIN_TEST_CFLAGS)
tests_unit_train_allocations_CFLAGS = $(TRAIN_TEST_CFLAGS)
tests_unit_train_allocations_LDADD = $(TRAIN_TEST_LDADD)
tests_unit_train_program_LDADD = $(TRAIN_TEST_LDADD)
tests_unit_train_schedule_CFLAGS = $(TRAIN_TEST_CFLAGS)
tests_unit_train_schedule_LDADD = $(TRAIN_TEST_LDADD)
tests_unit_train_simulate_CFLAGS = $(TRAIN_TEST_CFLAGS)
tests_unit_train_simulate_LDADD = $(TRAIN_TEST_LDADD)
tests_unit_train_memory_CFLAGS = $(TRAIN_TEST_CFLAGS) $(JANSSON_CFLAGS)
tests_unit_train_memory_LDADD = $(TRAIN_TEST_LDADD)
tests_unit_plan_advice_CFLAGS = $(TRAIN_TEST_CFLAGS)
tests_unit_plan_advice_LDADD = $(TRAIN_TEST_LDADD)
tests_unit_plan_search_CFLAGS = $(TRAIN_TEST_CFLAGS)
tests_unit_plan_search_LDADD = $(TRAIN_TEST_LDADD)
tests_unit_train_planned_CFLAGS = $(TRAIN_TEST_CFLAGS)
tests_unit_train_planned_LDADD = $(TRAIN_TEST_LDADD)
tests_unit_train_balance_CFLAGS = $(TRAIN_TEST_CFLAGS)
tests_unit_train_balance_LDADD = $(TRAIN_TEST_LDADD)
tests_unit_plan_edits_CFLAGS = $(TRAIN_TEST_CFLAGS) $(JANSSON_CFLAGS)
tests_unit_plan_edits_LDADD = $(TRAIN_TEST_LDADD) $(JANSSON_LIBS)
tests_unit_train_loop_CFLAGS = $(TRAIN_TEST_CFLAGS) $(JANSSON_CFLAGS)
tests_unit_train_loop_LDADD = $(TRAIN_TEST_LDADD)
tests_unit_cuda_calls_CFLAGS = $(TRAIN_TEST_CFLAGS)
tests_unit_cuda_calls_LDADD = $(TRAIN_TEST_LDADD) -lpthread
tests_unit_checkpoint_CFLAGS = $(TRAIN_TEST_CFLAGS) $(JANSSON_CFLAGS)
tests_unit_checkpoint_LDADD = $(TRAIN_TEST_LDADD) $(JANSSON_LIBS) -lpthread
tests_unit_train_resume_CFLAGS = $(TRAIN_TEST_CFLAGS) $(JANSSON_CFLAGS)
tests_unit_train_resume_LDADD = $(TRAIN_TEST_LDADD)

# Layouts against one host rank. Ranks share two cores: one thread each.
train_ranks_programs = tests/ranks/forks tests/ranks/parity tests/ranks/planted tests/ranks/mesh tests/ranks/models tests/ranks/models_planted tests/ranks/models_planted_heads
EXTRA_PROGRAMS += $(train_ranks_programs)
TRAIN_RANKS_CFLAGS = $(AM_CFLAGS) $(MPICH_CFLAGS)
TRAIN_RANKS_LDADD = $(LIBYOKE_TRAIN) $(LIBYOKE_COMM) $(LIBYOKE) $(MPICH_LIBS) -lm
tests_ranks_forks_SOURCES = tests/ranks/ranks.h tests/ranks/forks.c
tests_ranks_forks_CFLAGS = $(TRAIN_RANKS_CFLAGS)
tests_ranks_forks_LDADD = $(TRAIN_RANKS_LDADD)
tests_ranks_parity_SOURCES = tests/ranks/ranks.h tests/ranks/parity.h tests/ranks/parity.c
tests_ranks_parity_CFLAGS = $(TRAIN_RANKS_CFLAGS)
tests_ranks_parity_LDADD = $(TRAIN_RANKS_LDADD)
tests_ranks_planted_SOURCES = tests/ranks/ranks.h tests/ranks/parity.h tests/ranks/plants.h tests/ranks/plants.c tests/ranks/planted.c
tests_ranks_planted_CFLAGS = $(TRAIN_RANKS_CFLAGS)
tests_ranks_planted_LDADD = $(TRAIN_RANKS_LDADD)
# The same bugs, preloaded into the command.
check_LTLIBRARIES += tests/ranks/libplants.la
tests_ranks_libplants_la_SOURCES = tests/ranks/plants.h tests/ranks/plants.c
tests_ranks_libplants_la_CFLAGS = $(TRAIN_RANKS_CFLAGS)
tests_ranks_libplants_la_LDFLAGS = -module -avoid-version -rpath /nowhere
# A layer norm that is wrong above 512 columns on one rank, preloaded into the command.
check_LTLIBRARIES += tests/ranks/libwide_norm.la
tests_ranks_libwide_norm_la_SOURCES = tests/ranks/wide_norm.c
tests_ranks_libwide_norm_la_LDFLAGS = -module -avoid-version -rpath /nowhere
# Faults for yoke postmortem.
check_LTLIBRARIES += tests/ranks/libpostmortem_plants.la
tests_ranks_libpostmortem_plants_la_SOURCES = tests/ranks/postmortem_plants.c
tests_ranks_libpostmortem_plants_la_CFLAGS = $(TRAIN_RANKS_CFLAGS)
tests_ranks_libpostmortem_plants_la_LDFLAGS = -module -avoid-version -rpath /nowhere
YOKE_TESTS += 'OMP_NUM_THREADS=1 TMPDIR=/dev/shm $(top_srcdir)/tests/ranks/postmortem_command' \
	'soak OMP_NUM_THREADS=1 POCL_MAX_PTHREAD_COUNT=1 TMPDIR=/dev/shm $(top_srcdir)/tests/ranks/postmortem_command all'
EXTRA_DIST += tests/ranks/postmortem_command
YOKE_TESTS += 'OMP_NUM_THREADS=1 TMPDIR=/dev/shm $(top_srcdir)/tests/ranks/postmortem_layouts' \
	'soak OMP_NUM_THREADS=1 POCL_MAX_PTHREAD_COUNT=1 TMPDIR=/dev/shm $(top_srcdir)/tests/ranks/postmortem_layouts all' \
	'soak OMP_NUM_THREADS=1 TMPDIR=/dev/shm $(top_srcdir)/tests/ranks/postmortem_layouts bad'
EXTRA_DIST += tests/ranks/postmortem_layouts
YOKE_TESTS += 'OMP_NUM_THREADS=1 TMPDIR=/dev/shm $(top_srcdir)/tests/ranks/skip_samples_command' \
	'soak OMP_NUM_THREADS=1 TMPDIR=/dev/shm $(top_srcdir)/tests/ranks/skip_samples_command all'
EXTRA_DIST += tests/ranks/skip_samples_command
# A step whose receives do not wait for their memory, on emulated devices.
check_LTLIBRARIES += tests/ranks/liblost_waits.la
tests_ranks_liblost_waits_la_SOURCES = tests/ranks/lost_waits.c
tests_ranks_liblost_waits_la_CFLAGS = $(TRAIN_RANKS_CFLAGS)
tests_ranks_liblost_waits_la_LDFLAGS = -module -avoid-version -rpath /nowhere
EXTRA_DIST += tests/ranks/lost_waits
YOKE_TESTS += $(top_srcdir)/tests/ranks/lost_waits
# Queues of another framework beside a job.
check_LTLIBRARIES += tests/ranks/libforeign_queues.la
tests_ranks_libforeign_queues_la_SOURCES = tests/ranks/foreign_queues.c
tests_ranks_libforeign_queues_la_CFLAGS = $(TRAIN_RANKS_CFLAGS)
tests_ranks_libforeign_queues_la_LIBADD = -lpthread -ldl
tests_ranks_libforeign_queues_la_LDFLAGS = -module -avoid-version -rpath /nowhere
EXTRA_DIST += tests/ranks/channels
YOKE_TESTS += $(top_srcdir)/tests/ranks/channels
tests_ranks_mesh_SOURCES = tests/ranks/ranks.h tests/ranks/parity.h tests/ranks/mesh.c
tests_ranks_models_SOURCES = tests/ranks/ranks.h tests/ranks/parity.h tests/ranks/models.c
tests_ranks_models_CFLAGS = $(TRAIN_RANKS_CFLAGS)
tests_ranks_models_LDADD = $(TRAIN_RANKS_LDADD)
tests_ranks_models_planted_heads_SOURCES = $(tests_ranks_models_SOURCES)
tests_ranks_models_planted_heads_CFLAGS = $(TRAIN_RANKS_CFLAGS) -D_GNU_SOURCE -DPLANT_HEADS
tests_ranks_models_planted_heads_LDADD = $(TRAIN_RANKS_LDADD) -ldl
tests_ranks_models_planted_SOURCES = $(tests_ranks_models_SOURCES)
tests_ranks_models_planted_CFLAGS = $(TRAIN_RANKS_CFLAGS) -DPLANT_ROWS
tests_ranks_models_planted_LDADD = $(TRAIN_RANKS_LDADD)
tests_ranks_mesh_CFLAGS = $(TRAIN_RANKS_CFLAGS)
tests_ranks_mesh_LDADD = $(TRAIN_RANKS_LDADD)
YOKE_TESTS += \
	'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/run 2 tests/ranks/forks' \
	'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/run -H aab 3 tests/ranks/forks' \
	'long OMP_NUM_THREADS=1 POCL_MAX_PTHREAD_COUNT=1 $(top_srcdir)/tests/ranks/run 8 tests/ranks/mesh' \
	'long OMP_NUM_THREADS=1 POCL_MAX_PTHREAD_COUNT=1 $(top_srcdir)/tests/ranks/run 4 tests/ranks/models' \
	'OMP_NUM_THREADS=1 POCL_MAX_PTHREAD_COUNT=1 $(top_srcdir)/tests/ranks/run 2 tests/ranks/models_planted' \
	'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/run 4 tests/ranks/models_planted_heads' \
	'long OMP_NUM_THREADS=1 POCL_MAX_PTHREAD_COUNT=1 $(top_srcdir)/tests/ranks/run 4 tests/ranks/parity' \
	'OMP_NUM_THREADS=1 POCL_MAX_PTHREAD_COUNT=1 $(top_srcdir)/tests/ranks/run 3 tests/ranks/planted' \
	'OMP_NUM_THREADS=1 POCL_MAX_PTHREAD_COUNT=1 $(top_srcdir)/tests/ranks/parity_command' \
	'long $(top_srcdir)/tests/ranks/emulated_command' \
	'long $(top_srcdir)/tests/ranks/hip_command' \
	'long $(top_srcdir)/tests/ranks/five_devices' \
	'soak $(top_srcdir)/tests/ranks/five_devices layouts' \
	'soak $(top_srcdir)/tests/ranks/five_devices bits' \
	'soak $(top_srcdir)/tests/ranks/five_devices moves' \
	'soak $(top_srcdir)/tests/ranks/five_devices kills' \
	'soak $(top_srcdir)/tests/ranks/five_devices lost' \
	'soak $(top_srcdir)/tests/ranks/five_devices audit' \
	'long OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/train_command' \
	'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/no_memory_command ./yoke'
EXTRA_DIST += tests/ranks/train_command tests/ranks/parity_command tests/ranks/emulated_command tests/ranks/hip_command tests/ranks/five_devices

# What is predicted is what is measured; bench/memory measures a model of about 1 GB by the same program.
EXTRA_PROGRAMS += tests/ranks/memory
tests_ranks_memory_CFLAGS = $(TRAIN_RANKS_CFLAGS)
tests_ranks_memory_LDADD = $(TRAIN_RANKS_LDADD)
YOKE_TESTS += \
	'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/run 1 tests/ranks/memory' \
	'OMP_NUM_THREADS=1 POCL_MAX_PTHREAD_COUNT=1 $(top_srcdir)/tests/ranks/run 4 tests/ranks/memory' \
	'OMP_NUM_THREADS=1 POCL_MAX_PTHREAD_COUNT=1 $(top_srcdir)/tests/ranks/plan_command'
EXTRA_DIST += tests/ranks/plan_command
YOKE_TESTS += $(top_srcdir)/tests/ranks/plan_grid_numbers
YOKE_TESTS += 'soak alone bench/plan_grid -k -m micro' 'soak alone bench/plan_grid -k -m llama' 'soak alone bench/plan_grid -k -m mistral'
YOKE_TESTS += 'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/cluster_command' 'soak alone $(top_srcdir)/tests/ranks/cluster_command slow'
EXTRA_DIST += tests/ranks/cluster_command
YOKE_TESTS += 'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/plan_memo' 'soak YOKE_SOAK=1 $(top_srcdir)/tests/ranks/plan_memo'
EXTRA_DIST += tests/ranks/plan_memo

# Layers over ranks that share their tensors; and with bugs in the library's place, which must be noticed.
tensor_programs = tests/ranks/tensor tests/ranks/tensor_planted_summed tests/ranks/tensor_planted_counted \
	tests/ranks/tensor_planted_bias tests/ranks/tensor_planted_dropped
EXTRA_PROGRAMS += $(tensor_programs)
tests_ranks_tensor_CFLAGS = $(TRAIN_RANKS_CFLAGS)
tests_ranks_tensor_LDADD = $(TRAIN_RANKS_LDADD)
tests_ranks_tensor_planted_summed_SOURCES = tests/ranks/ranks.h tests/golden/gates.h tests/ranks/tensor.c
tests_ranks_tensor_planted_summed_CFLAGS = $(TRAIN_RANKS_CFLAGS) -DPLANT_SUMMED_TWICE
tests_ranks_tensor_planted_summed_LDADD = $(TRAIN_RANKS_LDADD)
tests_ranks_tensor_planted_counted_SOURCES = tests/ranks/ranks.h tests/golden/gates.h tests/ranks/tensor.c
tests_ranks_tensor_planted_counted_CFLAGS = $(TRAIN_RANKS_CFLAGS) -DPLANT_COUNTED
tests_ranks_tensor_planted_counted_LDADD = $(TRAIN_RANKS_LDADD)
tests_ranks_tensor_planted_bias_SOURCES = tests/ranks/ranks.h tests/golden/gates.h tests/ranks/tensor.c
tests_ranks_tensor_planted_bias_CFLAGS = $(TRAIN_RANKS_CFLAGS) -DPLANT_BIAS
tests_ranks_tensor_planted_bias_LDADD = $(TRAIN_RANKS_LDADD)
tests_ranks_tensor_planted_dropped_SOURCES = tests/ranks/ranks.h tests/golden/gates.h tests/ranks/tensor.c
tests_ranks_tensor_planted_dropped_CFLAGS = $(TRAIN_RANKS_CFLAGS) -DPLANT_DROPPED
tests_ranks_tensor_planted_dropped_LDADD = $(TRAIN_RANKS_LDADD)
YOKE_TESTS += \
	'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/run 2 tests/ranks/tensor' \
	'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/run 3 tests/ranks/tensor' \
	'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/run 4 tests/ranks/tensor' \
	'POCL_MAX_PTHREAD_COUNT=1 $(top_srcdir)/tests/ranks/run 2 tests/ranks/tensor opencl:0' \
	'OMP_NUM_THREADS=1 POCL_MAX_PTHREAD_COUNT=1 $(top_srcdir)/tests/ranks/run 2 tests/ranks/tensor host opencl:0' \
	'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/run 2 tests/ranks/tensor_planted_summed' \
	'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/run 3 tests/ranks/tensor_planted_counted' \
	'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/run 2 tests/ranks/tensor_planted_bias' \
	'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/run 3 tests/ranks/tensor_planted_dropped'

# Unequal devices: placement, what is chosen, and who is left out.
EXTRA_PROGRAMS += tests/ranks/place
tests_ranks_place_SOURCES = tests/ranks/ranks.h tests/ranks/place.c
tests_ranks_place_CFLAGS = $(TRAIN_RANKS_CFLAGS)
tests_ranks_place_LDADD = $(TRAIN_RANKS_LDADD)
YOKE_TESTS += \
	'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/run -H abab 4 tests/ranks/place' \
	'OMP_NUM_THREADS=1 POCL_MAX_PTHREAD_COUNT=1 $(top_srcdir)/tests/ranks/run -H aabb 4 tests/ranks/place host opencl:0' \
	'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/run 3 tests/ranks/place' \
	'long OMP_NUM_THREADS=1 POCL_MAX_PTHREAD_COUNT=1 $(top_srcdir)/tests/ranks/balance_command'
EXTRA_DIST += tests/ranks/balance_command

# Checkpoints of divided models, and of runs as a user has them.
EXTRA_PROGRAMS += tests/ranks/checkpoint
tests_ranks_checkpoint_SOURCES = tests/ranks/ranks.h tests/ranks/checkpoint.c
tests_ranks_checkpoint_CFLAGS = $(TRAIN_RANKS_CFLAGS) $(JANSSON_CFLAGS)
tests_ranks_checkpoint_LDADD = $(TRAIN_RANKS_LDADD)
YOKE_TESTS += \
	'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/run 4 tests/ranks/checkpoint' \
	'long OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/checkpoint_command'
EXTRA_DIST += tests/ranks/checkpoint_command

# Optimizer states divided over the replicas; and with bugs in the library's place, which must be noticed.
zero_programs = tests/ranks/zero tests/ranks/rounding tests/ranks/zero_planted_gather tests/ranks/zero_planted_slice
EXTRA_PROGRAMS += $(zero_programs)
tests_ranks_rounding_SOURCES = tests/ranks/ranks.h tests/ranks/rounding.c
tests_ranks_rounding_CFLAGS = $(TRAIN_RANKS_CFLAGS)
tests_ranks_rounding_LDADD = $(TRAIN_RANKS_LDADD)
tests_ranks_zero_SOURCES = tests/ranks/ranks.h tests/ranks/zero.c
tests_ranks_zero_CFLAGS = $(TRAIN_RANKS_CFLAGS)
tests_ranks_zero_LDADD = $(TRAIN_RANKS_LDADD)
tests_ranks_zero_planted_gather_SOURCES = tests/ranks/ranks.h tests/ranks/zero.c
tests_ranks_zero_planted_gather_CFLAGS = $(TRAIN_RANKS_CFLAGS) -DPLANT_GATHER
tests_ranks_zero_planted_gather_LDADD = $(TRAIN_RANKS_LDADD)
tests_ranks_zero_planted_slice_SOURCES = tests/ranks/ranks.h tests/ranks/zero.c
tests_ranks_zero_planted_slice_CFLAGS = $(TRAIN_RANKS_CFLAGS) -DPLANT_SLICE
tests_ranks_zero_planted_slice_LDADD = $(TRAIN_RANKS_LDADD)
YOKE_TESTS += \
	'OMP_NUM_THREADS=1 POCL_MAX_PTHREAD_COUNT=1 $(top_srcdir)/tests/ranks/run 4 tests/ranks/zero' \
	'OMP_NUM_THREADS=1 POCL_MAX_PTHREAD_COUNT=1 YOKE_OPENCL_ADDRESS=buffer $(top_srcdir)/tests/ranks/run 2 tests/ranks/zero OpenCL f16' \
	'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/run 6 tests/ranks/zero unequal' \
	'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/run -H aabb 4 tests/ranks/zero four bf16' \
	'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/run -H abb 3 tests/ranks/zero 1:4:2' \
	'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/run 3 tests/ranks/zero_planted_gather 1:4:2' \
	'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/run 3 tests/ranks/zero_planted_slice 1:4:2' \
	'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/run 2 tests/ranks/rounding' \
	'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/run 4 tests/ranks/rounding'
# Audits of replicas, in layouts that are healthy and with planted errors.
EXTRA_PROGRAMS += tests/ranks/audit
tests_ranks_audit_SOURCES = tests/ranks/ranks.h tests/ranks/audit.c
tests_ranks_audit_CFLAGS = $(TRAIN_RANKS_CFLAGS)
tests_ranks_audit_LDADD = $(TRAIN_RANKS_LDADD)
YOKE_TESTS += 'OMP_NUM_THREADS=1 POCL_MAX_PTHREAD_COUNT=1 $(top_srcdir)/tests/ranks/run 4 tests/ranks/audit' \
	'soak OMP_NUM_THREADS=1 POCL_MAX_PTHREAD_COUNT=1 $(top_srcdir)/tests/ranks/run 2 tests/ranks/audit' \
	'soak OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/run 6 tests/ranks/audit'
# The black boxes of several ranks, of healthy runs and of planted errors.
EXTRA_PROGRAMS += tests/ranks/blackbox
tests_ranks_blackbox_SOURCES = tests/ranks/ranks.h tests/ranks/blackbox.c
tests_ranks_blackbox_CFLAGS = $(TRAIN_RANKS_CFLAGS)
tests_ranks_blackbox_LDADD = $(TRAIN_RANKS_LDADD)
YOKE_TESTS += 'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/run 4 tests/ranks/blackbox' \
	'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/blackbox_command' \
	'soak OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/run 8 tests/ranks/blackbox' \
	'soak OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/run 3 tests/ranks/blackbox' \
	'soak OMP_NUM_THREADS=1 POCL_MAX_PTHREAD_COUNT=1 $(top_srcdir)/tests/ranks/run 2 tests/ranks/blackbox'
EXTRA_DIST += tests/ranks/blackbox_command
# Causes of slow steps, planted into simulated runs.
EXTRA_PROGRAMS += tests/unit/diagnose
tests_unit_diagnose_SOURCES = tests/unit/diagnose.c tests/unit/diagnose_jobs.c tests/unit/diagnose_jobs.h
tests_unit_diagnose_CFLAGS = $(TRAIN_TEST_CFLAGS)
tests_unit_diagnose_LDADD = $(TRAIN_TEST_LDADD)
YOKE_TESTS += tests/unit/diagnose 'soak quiet $(top_srcdir)/tests/ranks/diagnose_command ./yoke'
EXTRA_DIST += tests/ranks/diagnose_command
# What a run shows of itself: timelines, metrics, sums beside the passes.
EXTRA_PROGRAMS += tests/unit/train_timeline tests/ranks/timeline_check tests/ranks/beside
tests_unit_train_timeline_SOURCES = tests/unit/train_timeline.c tests/unit/timeline_check.h tests/unit/tiny_run.h tests/unit/folder.h
tests_unit_train_timeline_CFLAGS = $(TRAIN_TEST_CFLAGS) $(JANSSON_CFLAGS)
tests_unit_train_timeline_LDADD = $(TRAIN_TEST_LDADD) $(JANSSON_LIBS)
tests_ranks_beside_SOURCES = tests/ranks/beside.c tests/ranks/ranks.h
tests_ranks_beside_CFLAGS = $(TRAIN_RANKS_CFLAGS)
tests_ranks_beside_LDADD = $(RANKS_LDADD)
tests_ranks_timeline_check_SOURCES = tests/ranks/timeline_check.c tests/unit/timeline_check.h
tests_ranks_timeline_check_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_ranks_timeline_check_LDADD = $(JANSSON_LIBS) -lm
YOKE_TESTS += tests/unit/train_timeline 'OMP_NUM_THREADS=1 POCL_MAX_PTHREAD_COUNT=1 $(top_srcdir)/tests/ranks/timeline_command' \
	'$(top_srcdir)/tests/ranks/run 2 tests/ranks/beside' '$(top_srcdir)/tests/ranks/run 3 tests/ranks/beside'
EXTRA_DIST += tests/ranks/timeline_command
# Files for TensorBoard and Prometheus. The parts that take long, or check times, run in soak.
YOKE_TESTS += '$(top_srcdir)/tests/ranks/dashboards_command ./yoke' \
	'soak $(top_srcdir)/tests/ranks/dashboards_command ./yoke layouts readers' \
	'soak quiet $(top_srcdir)/tests/ranks/dashboards_command ./yoke damage'
EXTRA_DIST += tests/ranks/dashboards_command

# Text to tokens, tokens to a model, the model to text.
YOKE_TESTS += 'OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/sample_command' 'long OMP_NUM_THREADS=1 $(top_srcdir)/tests/ranks/model_command'
EXTRA_DIST += tests/ranks/sample_command tests/ranks/model_command
