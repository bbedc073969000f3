# backends/gpu: appends to libyoke_la_SOURCES
