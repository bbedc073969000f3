# Examples: built and run by `make check`, and compiled against an installed Yoke by tests/install.
EXTRA_PROGRAMS += examples/gemm
EXTRA_DIST += examples/check
YOKE_TESTS += $(top_srcdir)/examples/check
examples_gemm_SOURCES = examples/gemm.c
examples_gemm_LDADD = $(LIBYOKE)
if WITH_MPI
EXTRA_PROGRAMS += examples/own_layer
examples_own_layer_SOURCES = examples/own_layer.c
examples_own_layer_LDADD = $(LIBYOKE_TRAIN) $(LIBYOKE) -lm
YOKE_TESTS += 'OMP_NUM_THREADS=1 examples/own_layer host'
endif
EXTRA_DIST += examples/training/model.json examples/training/data.yaml examples/training/layerwise.yaml examples/training/pipeline.yaml \
	examples/training/interleaved.yaml examples/training/tensor.yaml examples/training/hybrid.yaml examples/training/mixed.yaml examples/training/zero.yaml
# Clusters for the planner: tests/unit/cluster_file reads all of them.
EXTRA_DIST += examples/clusters/a100-256.yaml examples/clusters/mixed-32.yaml examples/clusters/mixed-1024.yaml \
	examples/clusters/workstations.yaml
# Models for the planner.
EXTRA_DIST += examples/models/llama-8b.json
# In C++: compiled against what was installed, by tests/install.
EXTRA_DIST += examples/sum.cpp
