/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/diagnose/events.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/base.h"

enum { PIECE = 1 << 18, LONGEST = 1 << 20 };

enum state { BEGIN, KEY, COLON, VALUE, EVENTS, END };

struct scanner {
    const char *path;
    diagnose_visit *visit;
    void *context;
    enum state state;
    bool is_list;          /* the file is a list of events */
    bool in_value;         /* a value or a key has begun */
    bool in_text, escaped; /* inside a string */
    int depth;             /* of lists and objects inside the value */
    bool in_events;        /* the values are elements of traceEvents */
    char key[64];
    char *text; /* [LONGEST + 1] the value so far */
    size_t n;
    bool is_long; /* the value is above the limit */
    bool torn, packed;
    int64_t n_events;
};

static void keep(struct scanner *s, char c)
{
    if (s->n < LONGEST)
        s->text[s->n++] = c;
    else
        s->is_long = true;
}

/* The value is complete. */
static yoke_status finish(struct scanner *s)
{
    json_error_t error;
    yoke_status status = YOKE_OK;
    s->text[s->n] = '\0';
    if (!s->in_events) s->state = KEY; /* after another value at the top, a key comes */
    json_t *value = s->is_long ? NULL : json_loadb(s->text, s->n, JSON_DECODE_ANY, &error);
    if (value) {
        s->n_events += s->in_events;
        status = s->visit(s->context, s->in_events ? NULL : s->key, value);
        json_decref(value);
    } else if (!s->is_long) {
        s->torn = true;
        s->state = END;
    }
    s->n = 0;
    s->in_value = s->is_long = false;
    return status;
}

/* A character of a value. *again_out: the character comes after the value, and is still to be looked at. */
static yoke_status value_goes_on(struct scanner *s, char c, bool *again_out)
{
    *again_out = false;
    if (s->in_text) {
        keep(s, c);
        if (s->escaped)
            s->escaped = false;
        else if (c == '\\')
            s->escaped = true;
        else if (c == '"')
            s->in_text = false;
        return !s->in_text && !s->depth ? finish(s) : YOKE_OK;
    }
    if (!s->depth && (c == ',' || c == '}' || c == ']' || isspace((unsigned char)c))) { /* behind a number */
        *again_out = true;
        return finish(s);
    }
    keep(s, c);
    if (c == '"') s->in_text = true;
    if (c == '{' || c == '[') s->depth++;
    if ((c == '}' || c == ']') && --s->depth == 0) return finish(s);
    return YOKE_OK;
}

static void begin_value(struct scanner *s, char c)
{
    s->in_value = true;
    s->n = 0;
    keep(s, c);
    s->in_text = c == '"';
    s->depth = c == '{' || c == '[';
}

static void fail(struct scanner *s)
{
    s->torn = true;
    s->state = END;
}

static yoke_status key_is_complete(struct scanner *s)
{
    yokei_text(s->key, sizeof s->key, "%.*s", (int)YOKE_MIN(s->n, (size_t)60), s->text);
    s->n = 0;
    s->in_value = false;
    s->state = COLON;
    return YOKE_OK;
}

static yoke_status take(struct scanner *s, char c)
{
    bool again;
    if (s->state == KEY && s->in_value) { /* the text of a key, without its quotation marks */
        if (c == '"' && !s->escaped) return key_is_complete(s);
        s->escaped = c == '\\' && !s->escaped;
        keep(s, c);
        return YOKE_OK;
    }
    if (s->in_value) {
        YOKE_TRY(value_goes_on(s, c, &again));
        if (!again) return YOKE_OK;
    }
    if (isspace((unsigned char)c) || c == ',' || s->state == END) return YOKE_OK;
    switch (s->state) {
    case BEGIN:
        s->packed = c == '\x1f'; /* the first byte of gzip's files */
        s->is_list = s->in_events = c == '[';
        s->state = c == '[' ? EVENTS : KEY;
        if (c != '[' && c != '{') fail(s);
        break;
    case KEY:
        if (c == '"')
            s->in_value = true, s->escaped = false;
        else if (c == '}')
            s->state = END;
        else
            fail(s);
        break;
    case COLON:
        if (c == ':')
            s->state = VALUE;
        else
            fail(s);
        break;
    case VALUE:
        if (c == '[' && !strcmp(s->key, "traceEvents")) {
            s->in_events = true;
            s->state = EVENTS;
        } else {
            begin_value(s, c);
        }
        break;
    case EVENTS:
        if (c == ']') {
            s->in_events = false;
            s->state = s->is_list ? END : KEY;
        } else {
            begin_value(s, c);
        }
        break;
    default: break;
    }
    return YOKE_OK;
}

static yoke_status scan(struct scanner *s, int fd)
{
    char *piece = malloc(PIECE);
    yoke_status status = piece ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "%s: no memory to read it", s->path);
    while (!status) {
        const ssize_t n = read(fd, piece, PIECE);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) status = yoke_fail(YOKE_EDATA, "%s: cannot be read: %s", s->path, yokei_why(errno));
        if (n <= 0) break;
        for (ssize_t i = 0; i < n && !status; i++) status = take(s, piece[i]);
    }
    free(piece);
    return status;
}

yoke_status diagnose_events(const char *path, diagnose_visit *visit, void *context, bool *torn_out)
{
    struct scanner s = { .path = path, .visit = visit, .context = context, .text = malloc(LONGEST + 1) };
    int fd;
    size_t bytes;
    if (!s.text) return yoke_fail(YOKE_ENOMEM, "%s: no memory to read it", path);
    yoke_status status = yokei_file_open(path, YOKE_EDATA, &fd, &bytes);
    if (!status) {
        status = scan(&s, fd);
        close(fd);
    }
    if (!status && s.packed)
        status = yoke_fail(YOKE_EDATA, "%s: it is compressed; unpack it first (gunzip)", path);
    if (!status && !s.n_events)
        status = yoke_fail(YOKE_EDATA,
                           "%s: it is no Chrome trace, because it has no list traceEvents with events", path);
    *torn_out = s.torn || s.state != END;
    free(s.text);
    return status;
}
