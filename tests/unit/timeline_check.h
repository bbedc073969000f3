/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether a file is a valid timeline of training steps. The unit test and tests/ranks/timeline_check
 * use it.
 */
#ifndef TESTS_UNIT_TIMELINE_CHECK_H
#define TESTS_UNIT_TIMELINE_CHECK_H

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct timeline_facts {
    /* Numbers of events of each kind; an arrow counts if it has both ends. */
    int n_measured, n_simulated, n_arrows, n_counters, n_processes, n_steps;
    double measured, simulated;
    char problem[512]; /* the first problem; "" if there is none */
};

static int timeline_problem(struct timeline_facts *facts, const char *what, const char *detail)
{
    if (!facts->problem[0]) snprintf(facts->problem, sizeof facts->problem, "%.100s: %.400s", what, detail);
    return -1;
}

static double timeline_number(const json_t *event, const char *key)
{
    const json_t *value = json_object_get(event, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static const char *timeline_word(const json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));
    return text ? text : "";
}

/*
 * Check a complete event: it has times, and begins after the event before it on its track ends. `ends` keeps
 * the end of the last event of each track.
 */
static int timeline_complete(struct timeline_facts *facts, const json_t *event, json_t *ends, json_t *seen)
{
    char track[64], once[512];
    const double begin = timeline_number(event, "ts"), length = timeline_number(event, "dur");
    const json_t *args = json_object_get(event, "args");
    const bool measured = strcmp(timeline_word(event, "cat"), "measured") == 0;
    if (!(begin >= 0) || !(length >= 0))
        return timeline_problem(facts, "an event has no time", timeline_word(event, "name"));
    snprintf(track, sizeof track, "%g:%g", timeline_number(event, "pid"), timeline_number(event, "tid"));
    const json_t *before = json_object_get(ends, track);
    /* Times in the file have three digits. */
    if (before && begin < json_number_value(before) - 0.0021)
        return timeline_problem(facts, "events of a track overlap", timeline_word(event, "name"));
    json_object_set_new(ends, track, json_real(begin + length));
    snprintf(once, sizeof once, "%s|%s|%g|%g|%s", track, timeline_word(event, "cat"),
             timeline_number(args, "step"), timeline_number(args, "chunk"), timeline_word(event, "name"));
    if (json_object_get(seen, once)) return timeline_problem(facts, "an instruction is there twice", once);
    json_object_set_new(seen, once, json_true());
    if (!(timeline_number(args, "flops") >= 0) || !(timeline_number(args, "bytes") >= 0))
        return timeline_problem(facts, "no flops or bytes", once);
    if (measured)
        facts->n_measured++;
    else
        facts->n_simulated++;
    return 0;
}

/*
 * Note one end of an arrow. Each end must come once; timeline_arrows_pair checks that no arrow goes back in
 * time.
 */
static int timeline_arrow(struct timeline_facts *facts, const json_t *event, json_t *arrows)
{
    const char *id = timeline_word(event, "id"), *other;
    char key[160];
    const bool begins = timeline_word(event, "ph")[0] == 's';
    snprintf(key, sizeof key, "%s|%s", timeline_word(event, "cat"), id);
    json_t *pair = json_object_get(arrows, key);
    if (!pair) json_object_set_new(arrows, key, pair = json_object());
    other = begins ? "s" : "f";
    if (json_object_get(pair, other)) return timeline_problem(facts, "an arrow's end is there twice", id);
    json_object_set_new(pair, other, json_real(timeline_number(event, "ts")));
    return 0;
}

static int timeline_arrows_pair(struct timeline_facts *facts, json_t *arrows, double slack)
{
    const char *id;
    json_t *pair;
    json_object_foreach(arrows, id, pair)
    {
        const json_t *s = json_object_get(pair, "s"), *f = json_object_get(pair, "f");
        if (!s || !f) return timeline_problem(facts, "an arrow has one end", id);
        if (json_number_value(f) < json_number_value(s) - slack)
            return timeline_problem(facts, "an arrow goes back in time", id);
        facts->n_arrows++;
    }
    return 0;
}

static int timeline_events(struct timeline_facts *facts, const json_t *list, double slack)
{
    json_t *ends = json_object(), *seen = json_object(), *arrows = json_object(), *event;
    size_t i;
    int bad = 0;
    json_array_foreach(list, i, event)
    {
        const char ph = timeline_word(event, "ph")[0];
        if (ph == 'X')
            bad |= timeline_complete(facts, event, ends, seen);
        else if (ph == 's' || ph == 'f')
            bad |= timeline_arrow(facts, event, arrows);
        else if (ph == 'C')
            facts->n_counters += timeline_number(json_object_get(event, "args"), "bytes") > 0;
        else if (ph == 'M')
            facts->n_processes += strcmp(timeline_word(event, "name"), "process_name") == 0;
        else
            bad |= timeline_problem(facts, "an event of no kind", timeline_word(event, "ph"));
    }
    if (!bad) bad = timeline_arrows_pair(facts, arrows, slack);
    json_decref(ends);
    json_decref(seen);
    json_decref(arrows);
    return bad;
}

/* Returns 0, or -1 with the problem in *facts. */
static int check_timeline(const char *path, struct timeline_facts *facts)
{
    json_error_t error;
    memset(facts, 0, sizeof *facts);
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!root) return timeline_problem(facts, "no JSON", error.text);
    const json_t *other = json_object_get(root, "otherData"), *clocks = json_object_get(other, "clocks");
    double slack = 0.01; /* clocks may differ by the error that the file states */
    for (size_t r = 0; r < json_array_size(clocks); r++)
        slack += 2e6 * timeline_number(json_array_get(clocks, r), "error_seconds");
    facts->measured = timeline_number(other, "measured_seconds");
    facts->simulated = timeline_number(other, "simulated_seconds");
    facts->n_steps = (int)timeline_number(other, "steps");
    const double bubbles[] = { timeline_number(other, "bubble_measured"),
                               timeline_number(other, "bubble_simulated") };
    int bad = timeline_events(facts, json_object_get(root, "traceEvents"), slack);
    for (int i = 0; i < 2 && !bad; i++)
        if (!(bubbles[i] >= -1e-9 && bubbles[i] <= 1))
            bad = timeline_problem(facts, "a bubble is no fraction", path);
    if (!bad && (!(facts->measured > 0) || !(facts->simulated > 0)))
        bad = timeline_problem(facts, "a step takes no time", path);
    /*
     * Measured and simulated events have the same instructions. The measured ones are there for every step,
     * the simulated ones once.
     */
    if (!bad && facts->n_measured != facts->n_simulated * facts->n_steps)
        bad = timeline_problem(facts, "measured and simulated differ in their instructions", path);
    json_decref(root);
    return bad;
}

#endif
