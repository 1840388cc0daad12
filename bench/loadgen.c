/* A Kafka client that costs little: one thread, epoll, pre-encoded requests, replies checked for errors only.
 *
 *   produce  closed loop: each connection keeps `window` requests in flight
 *   fetch    the same over a log of `batches` equal batches; bodies are dropped in the kernel (--body trunc), received
 *            (read), or received and verified batch by batch (check)
 *   pace     open loop: one record per request at `rate`/s; latency counts from the moment a request was due
 *   e2e      pace, and a second connection whose parked fetch sees each record arrive
 *   touch    makes the machine own its memory: the first use of a page in a virtual machine costs a fault outside it
 *
 * Connection i serves partition i modulo --partitions; --ports names the port of each partition's leader, the last one
 * that of all the rest. --batch-file is a batch encoded elsewhere; --stride makes fetches jump over so many batches.
 * Closed loops look for replies --spin-us before they sleep: waking a sleeping virtual CPU costs more than a request.
 * Prints one JSON object. Server CPU are the process clocks of --pids, read at the edges of the measured stretch.
 * `client_waits` is the share of time in which no reply was there to be read: near 0 the client is the bottleneck.
 */
#define _GNU_SOURCE
#include "foreign.h"
#include "requests.h"
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { RING = 1 << 16, SMALL_READ = 8 << 10, LARGE_READ = 8 << 20, MAX_CONNECTIONS = 1024, MAX_LISTED = 64 };
enum Body { TRUNC, READ, CHECK };

typedef struct {
    int count, at[MAX_LISTED];
} Numbers;

static struct {
    const char *mode, *topic, *batch_file;
    Numbers ports, pids;
    int acks, connections, window, partitions;
    uint32_t record_bytes, batch_bytes, batches, stride, rate;
    uint64_t max_requests, warm_requests, spin_us;
    double seconds, warm_seconds, gigabytes;
    enum Body body;
} opt = {.acks = 1, .connections = 1, .window = 5, .partitions = 1, .record_bytes = 100, .seconds = 1, .gigabytes = 4,
         .max_requests = UINT64_MAX, .spin_us = 30, .batches = 1, .stride = 1, .rate = 1000, .topic = "bench"};

typedef struct {
    int fd, blocked; /* blocked: the socket is full, EPOLLOUT is asked for */
    int closing;     /* the request after the last one is due: with acks=0 it asks for a reply, and ends the run */
    Request *request;
    uint32_t sent, answered; /* correlation ids: answered <= sent */
    uint64_t wanted;         /* requests that may have been sent by now */
    size_t sent_part;        /* bytes of request `sent` already sent */
    uint64_t discard;        /* bytes of the current reply still to come and to be dropped */
    uint8_t *in;
    size_t in_length, in_capacity;
    uint64_t *due_ns;
    uint8_t *prefix; /* of its own, to patch */
} Connection;

typedef struct {
    uint64_t at_ns, requests, waited_ns, server_ns, client_ns;
} Edge;

static Connection connections[MAX_CONNECTIONS];
static Buffer latencies; /* uint32_t, in units of 100 ns */
static uint64_t completed, issued, fetch_next, body_bytes, waited_ns;
static int epoll, measuring;
static Census others_before, others_after;
static size_t reply_error_at[2], reply_records_at;
static uint8_t *sink;

static uint64_t clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

static Edge edge(Census *others) {
    if (!measuring) take_census(others, opt.pids.at, opt.pids.count);
    Edge e = {.at_ns = now_ns(), .requests = completed, .waited_ns = waited_ns, .client_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID)};
    for (int i = 0; i < opt.pids.count; i++) e.server_ns += process_cpu_ns(opt.pids.at[i]);
    if (measuring) take_census(others, opt.pids.at, opt.pids.count);
    return e;
}

static void fail(const char *what, long code) {
    fprintf(stderr, "%s: %s (%ld)\n", opt.mode, what, code);
    exit(1);
}

static void note_latency(uint64_t since_ns) {
    uint64_t ticks = (now_ns() - since_ns) / 100;
    uint32_t stored = ticks > UINT32_MAX ? UINT32_MAX : (uint32_t)ticks;
    put_bytes(&latencies, &stored, sizeof stored);
}

static void open_connection(Connection *c, Request *request, int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->fd, (struct sockaddr *)&to, sizeof to)) die("connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->request = request;
    c->in_capacity = opt.body == CHECK ? LARGE_READ : SMALL_READ;
    c->in = malloc(c->in_capacity);
    c->due_ns = malloc(RING * sizeof *c->due_ns);
    c->prefix = malloc(request->prefix);
    memcpy(c->prefix, request->bytes.data, request->prefix);
}

static uint64_t fetch_offset(Connection *c) {
    if (!strcmp(opt.mode, "e2e")) return fetch_next;
    return ((uint64_t)c->sent * opt.stride % opt.batches) * c->request->batch_records;
}

static uint8_t *patch_prefix(Connection *c) {
    uint8_t *p = c->prefix;
    set32(p + CORRELATION_AT, c->sent);
    if (c->closing) memset(p + c->request->acks_at, 0, 2), p[c->request->acks_at + 1] = 1;
    if (c->request->fetch_offset_at) set64(p + c->request->fetch_offset_at, fetch_offset(c));
    return p;
}

static void want_write(Connection *c, int blocked) {
    if (c->blocked == blocked) return;
    struct epoll_event event = {.events = EPOLLIN | (blocked ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &event);
    c->blocked = blocked;
}

/* Sends what is wanted, one request per call as real clients do, until the socket is full. */
static void pump(Connection *c) {
    Request *r = c->request;
    while (c->sent < c->wanted) {
        if (!opt.rate && !c->sent_part) c->due_ns[c->sent % RING] = now_ns();
        size_t skip = c->sent_part, tail_skip = skip > r->prefix ? skip - r->prefix : 0;
        struct iovec parts[2] = {{NULL, 0}, {r->bytes.data + r->prefix + tail_skip, r->bytes.length - r->prefix - tail_skip}};
        if (skip < r->prefix) parts[0] = (struct iovec){patch_prefix(c) + skip, r->prefix - skip};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        ssize_t n = sendmsg(c->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) {
            want_write(c, 1);
            return;
        }
        if (n < 0) die("send");
        c->sent_part += (size_t)n;
        if (c->sent_part < r->bytes.length) continue;
        c->sent_part = 0;
        c->sent++;
        if (opt.acks == 0 && !c->closing) {
            completed++;
            c->answered = c->sent;
        }
    }
    want_write(c, 0);
}

static void check_batches(const uint8_t *p, const uint8_t *end) {
    while (end - p >= BATCH_HEADER && end - p >= 12 + (long)get32(p + 8)) {
        uint32_t length = 12 + get32(p + 8);
        if (crc32c(p + BATCH_ATTRIBUTES, length - BATCH_ATTRIBUTES) != get32(p + BATCH_CRC)) fail("wrong CRC", 0);
        if (!strcmp(opt.mode, "e2e")) {
            if (get64(p) != fetch_next) fail("wrong offset", (long)get64(p));
            uint64_t next = fetch_next + get32(p + BATCH_LAST_DELTA) + 1;
            for (; fetch_next < next; fetch_next++) {
                completed++;
                if (measuring) note_latency(connections[0].due_ns[fetch_next % RING]);
            }
        }
        p += length;
    }
}

/* `available` bytes of the frame are at `frame`: the whole of it when bodies are checked, at least its fixed part otherwise. */
static void take_reply(Connection *c, const uint8_t *frame, size_t available) {
    int is_fetch = c->request->fetch_offset_at != 0;
    if (available < reply_error_at[is_fetch] + 2) fail("short reply", (long)available);
    if (get32(frame + 4) != c->answered) fail("reply out of order", get32(frame + 4));
    if (get16(frame + reply_error_at[is_fetch])) fail("error in a reply", get16(frame + reply_error_at[is_fetch]));
    if (is_fetch) {
        const uint8_t *records = frame + reply_records_at;
        uint64_t length = get_uvarint(&records);
        body_bytes += length ? length - 1 : 0;
        if (opt.body == CHECK) check_batches(records, frame + available - 3);
        else if (length <= 1) fail("empty fetch", 0);
    }
    c->answered++;
    if (!strcmp(opt.mode, "e2e")) {
        c->wanted += (uint64_t)is_fetch;
        return;
    }
    completed++;
    if (measuring) note_latency(c->due_ns[(c->answered - 1) % RING]);
    if (!opt.rate && issued < opt.max_requests && !c->closing) c->wanted++, issued++;
}

static void drain_body(Connection *c) {
    uint64_t size = c->discard < LARGE_READ ? c->discard : LARGE_READ;
    ssize_t n = recv(c->fd, opt.body == TRUNC ? NULL : sink, size, MSG_DONTWAIT | (opt.body == TRUNC ? MSG_TRUNC : 0));
    if (n == 0) fail("connection closed", 0);
    if (n > 0) c->discard -= (uint64_t)n;
}

static void receive(Connection *c) {
    if (c->discard) {
        drain_body(c);
        return;
    }
    ssize_t n = recv(c->fd, c->in + c->in_length, c->in_capacity - c->in_length, MSG_DONTWAIT);
    if (n == 0) fail("connection closed", 0);
    if (n < 0) return;
    c->in_length += (size_t)n;
    size_t at = 0, fixed = reply_records_at + 5;
    while (c->in_length - at >= 4) {
        size_t frame = 4 + (size_t)get32(c->in + at), available = c->in_length - at;
        int enough = available >= frame || (opt.body != CHECK && frame > fixed && available >= fixed);
        if (!enough) break;
        take_reply(c, c->in + at, available < frame ? available : frame);
        if (available < frame) {
            c->discard = frame - available;
            at = c->in_length;
        } else at += frame;
    }
    c->in_length -= at;
    if (at && c->in_length) memmove(c->in, c->in + at, c->in_length);
}

static void turn(int timeout_us) {
    struct epoll_event ready[64];
    struct timespec wait = {0, timeout_us * 1000L};
    uint64_t from = now_ns(), spin_until = from + opt.spin_us * 1000u;
    int count;
    do count = epoll_wait(epoll, ready, 64, 0);
    while (!count && now_ns() < spin_until);
    if (!count && timeout_us) count = epoll_pwait2(epoll, ready, 64, &wait, NULL);
    waited_ns += now_ns() - from;
    for (int i = 0; i < count; i++) {
        Connection *c = ready[i].data.ptr;
        if (ready[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(c);
        if (!c->blocked || ready[i].events & EPOLLOUT) pump(c);
    }
}

static void start_connections(Request *requests) {
    epoll = epoll_create1(0);
    for (int i = 0; i < opt.connections; i++) {
        Connection *c = &connections[i];
        int partition = i % opt.partitions, last = opt.ports.count - 1;
        open_connection(c, &requests[partition], opt.ports.at[partition < last ? partition : last]);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
    }
}

/* Nobody answers acks=0: keep the sockets full, and let one acknowledged request per connection tell when all was taken. */
static void refill_unacknowledged(void) {
    for (int i = 0; i < opt.connections; i++) {
        Connection *c = &connections[i];
        c->wanted = c->sent + (uint64_t)opt.window;
        if (!c->blocked) pump(c);
    }
}

static void finish_unacknowledged(void) {
    for (int i = 0; i < opt.connections; i++) {
        Connection *c = &connections[i];
        while (c->sent_part) c->wanted = c->sent + 1u, turn(100000);
        c->closing = 1;
        c->wanted = c->sent + 1u;
        pump(c);
        while (c->answered < c->wanted) turn(100000);
    }
}

static void closed_loop(Edge *from, Edge *to) {
    for (int i = 0; i < opt.connections; i++) {
        connections[i].wanted = (uint64_t)opt.window;
        issued += (uint64_t)opt.window;
        pump(&connections[i]);
    }
    uint64_t start = now_ns(), warm_until = start + (uint64_t)(opt.warm_seconds * 1e9), until = UINT64_MAX;
    for (;;) {
        turn(opt.acks ? 100000 : 0);
        if (!opt.acks) refill_unacknowledged();
        uint64_t now = now_ns();
        if (!measuring && now >= warm_until && completed >= opt.warm_requests) {
            *from = edge(&others_before);
            measuring = 1;
            body_bytes = 0;
            until = from->at_ns + (uint64_t)(opt.seconds * 1e9);
        }
        if (now >= until || completed >= opt.max_requests) break;
    }
    if (!opt.acks) finish_unacknowledged();
    *to = edge(&others_after);
}

static void open_loop(int e2e, Edge *from, Edge *to) {
    Connection *producer = &connections[0];
    if (e2e) {
        connections[1].wanted = 1;
        pump(&connections[1]);
    }
    uint64_t step = 1000000000u / opt.rate, start = now_ns() + 20000000u;
    uint64_t warm = (uint64_t)(opt.warm_seconds * opt.rate), total = warm + (uint64_t)(opt.seconds * opt.rate);
    while (completed < total) {
        if (now_ns() > start + (uint64_t)((opt.warm_seconds + opt.seconds + 10) * 1e9)) fail("no end in sight", (long)completed);
        uint64_t due = start + issued * step, now = now_ns();
        if (issued < total && now >= due) {
            if (!measuring && issued >= warm && completed >= warm) {
                *from = edge(&others_before);
                measuring = 1;
            }
            producer->due_ns[issued % RING] = due;
            producer->wanted = ++issued;
            if (!producer->blocked) pump(producer);
        }
        if (issued - producer->answered >= RING) fail("server cannot keep the pace", (long)completed);
        uint64_t next = start + issued * step;
        now = now_ns();
        int sleep_us = issued >= total ? 1000 : next > now + 80000 ? (int)((next - now - 60000) / 1000) : 0;
        turn(sleep_us);
    }
    if (!measuring) fail("server cannot keep the pace", (long)completed);
    *to = edge(&others_after);
}

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static double percentile_us(double share) {
    size_t count = latencies.length / 4;
    if (!count) return 0;
    size_t at = (size_t)(share * (double)count);
    return ((uint32_t *)latencies.data)[at < count ? at : count - 1] / 10.0;
}

static void report(const Edge *from, const Edge *to, const Request *r) {
    double seconds = (double)(to->at_ns - from->at_ns) / 1e9, requests = (double)(to->requests - from->requests);
    double bytes = body_bytes && strcmp(opt.mode, "e2e") ? (double)body_bytes : requests * r->batch_bytes;
    double server = (double)(to->server_ns - from->server_ns) / 1e9, client = (double)(to->client_ns - from->client_ns) / 1e9;
    double waits = (double)(to->waited_ns - from->waited_ns) / 1e9 / seconds;
    double foreign = (double)foreign_ns(&others_before, &others_after) / 1e9;
    qsort(latencies.data, latencies.length / 4, 4, by_value);
    printf("{\"requests\": %.0f, \"seconds\": %.6f, \"bytes\": %.0f, \"requests_per_s\": %.1f, \"records_per_s\": %.1f, "
           "\"mb_per_s\": %.2f, \"server_cpu_s\": %.6f, \"client_cpu_s\": %.6f, \"client_waits\": %.3f, \"foreign_cores\": %.3f, \"batch_bytes\": %u, "
           "\"batch_records\": %u, \"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, \"max_us\": %.1f}\n",
           requests, seconds, bytes, requests / seconds, requests * r->batch_records / seconds, bytes / 1e6 / seconds, server, client,
           waits, foreign / seconds, r->batch_bytes, r->batch_records, percentile_us(.5), percentile_us(.99),
           percentile_us(.999), percentile_us(1));
}

static void touch(void) {
    size_t size = (size_t)(opt.gigabytes * (1 << 30));
    uint64_t start = now_ns();
    if (mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) == MAP_FAILED) die("mmap");
    printf("{\"gigabytes\": %.2f, \"seconds\": %.2f}\n", opt.gigabytes, (double)(now_ns() - start) / 1e9);
}

static Numbers parse_numbers(const char *text) {
    Numbers numbers = {0};
    for (char *end; *text && numbers.count < MAX_LISTED; text = *end == ',' ? end + 1 : end) {
        numbers.at[numbers.count++] = (int)strtol(text, &end, 10);
        if (end == text) exit(2);
    }
    return numbers;
}

static void parse_options(int argc, char **argv) {
    static const struct option names[] = {
        {"ports", 1, 0, 'p'}, {"topic", 1, 0, 't'}, {"pids", 1, 0, 'i'}, {"acks", 1, 0, 'a'}, {"connections", 1, 0, 'c'},
        {"window", 1, 0, 'w'}, {"partitions", 1, 0, 'n'}, {"record-bytes", 1, 0, 'r'}, {"batch-bytes", 1, 0, 'b'}, {"batches", 1, 0, 'B'},
        {"batch-file", 1, 0, 'f'}, {"stride", 1, 0, 'd'},
        {"rate", 1, 0, 'R'}, {"requests", 1, 0, 'm'}, {"warm-requests", 1, 0, 'W'}, {"seconds", 1, 0, 's'}, {"warm-seconds", 1, 0, 'S'},
        {"body", 1, 0, 'y'}, {"spin-us", 1, 0, 'u'}, {"gigabytes", 1, 0, 'g'}, {0, 0, 0, 0}};
    int name;
    while ((name = getopt_long(argc, argv, "", names, NULL)) != -1) switch (name) {
        case 'p': opt.ports = parse_numbers(optarg); break;
        case 't': opt.topic = optarg; break;
        case 'i': opt.pids = parse_numbers(optarg); break;
        case 'a': opt.acks = atoi(optarg); break;
        case 'c': opt.connections = atoi(optarg); break;
        case 'w': opt.window = atoi(optarg); break;
        case 'n': opt.partitions = atoi(optarg); break;
        case 'r': opt.record_bytes = (uint32_t)atoi(optarg); break;
        case 'b': opt.batch_bytes = (uint32_t)atoi(optarg); break;
        case 'B': opt.batches = (uint32_t)atoi(optarg); break;
        case 'f': opt.batch_file = optarg; break;
        case 'd': opt.stride = (uint32_t)atoi(optarg); break;
        case 'R': opt.rate = (uint32_t)atoi(optarg); break;
        case 'm': opt.max_requests = strtoull(optarg, NULL, 10); break;
        case 'W': opt.warm_requests = strtoull(optarg, NULL, 10); break;
        case 's': opt.seconds = atof(optarg); break;
        case 'S': opt.warm_seconds = atof(optarg); break;
        case 'y': opt.body = !strcmp(optarg, "check") ? CHECK : !strcmp(optarg, "read") ? READ : TRUNC; break;
        case 'u': opt.spin_us = strtoull(optarg, NULL, 10); break;
        case 'g': opt.gigabytes = atof(optarg); break;
        default: exit(2);
    }
    if (optind >= argc || opt.connections > MAX_CONNECTIONS || opt.window > RING) exit(2);
    opt.mode = argv[optind];
}

int main(int argc, char **argv) {
    parse_options(argc, argv);
    if (!strcmp(opt.mode, "touch")) {
        touch();
        return 0;
    }
    if (!opt.ports.count) exit(2);
    crc_init();
    sink = malloc(LARGE_READ);
    int e2e = !strcmp(opt.mode, "e2e"), paced = e2e || !strcmp(opt.mode, "pace"), fetching = !strcmp(opt.mode, "fetch");
    if (paced) opt.spin_us = 0;
    else opt.rate = 0;
    if (e2e) {
        opt.body = CHECK;
        opt.connections = opt.partitions = 2;
    }
    reply_error_at[0] = produce_error_at(opt.topic);
    reply_error_at[1] = fetch_error_at(opt.topic);
    reply_records_at = fetch_records_at(opt.topic);
    uint32_t records;
    Buffer batch = opt.batch_file ? read_batch(opt.batch_file, &records) : encode_batch(opt.record_bytes, opt.batch_bytes, &records);
    Request *requests = calloc((size_t)opt.partitions, sizeof *requests);
    for (int i = 0; i < opt.partitions; i++) {
        int is_fetch = fetching || (e2e && i == 1);
        uint32_t partition = e2e ? 0 : (uint32_t)i;
        requests[i] = is_fetch ? fetch_request(opt.topic, partition, e2e ? 1 << 20 : (uint32_t)batch.length)
                               : produce_request(opt.topic, partition, opt.acks, &batch, records);
        requests[i].batch_bytes = (uint32_t)batch.length;
        requests[i].batch_records = records;
    }
    prctl(PR_SET_TIMERSLACK, 1);
    start_connections(requests);
    Edge from = {0}, to = {0};
    if (paced) open_loop(e2e, &from, &to);
    else closed_loop(&from, &to);
    report(&from, &to, &requests[0]);
    return 0;
}
