# backends/host: appends to libyoke_la_SOURCES
