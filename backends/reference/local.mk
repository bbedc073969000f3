# backends/reference: appends to libyoke_la_SOURCES
