# backends/opencl: appends to libyoke_la_SOURCES
