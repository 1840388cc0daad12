/* The limit: what any server must do for the same requests, in C, and nothing else.
 *
 * One thread, epoll, recv, CRC-32C, pwrite, and one send for the replies of one read; Fetch is a header and a sendfile.
 * No offsets but a running count, no index, no producer state: a little generous, which is what a limit should be.
 * One file per topic name in the directory; all partitions of a topic share it. Batches of a topic must be of one size.
 */
#define _GNU_SOURCE
#include "wire.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_BYTES = 256 * 1024, TOPICS = 64, LARGEST_FRAME = 8 << 20 };

typedef struct {
    char name[256];
    int fd;
    uint64_t size, next_offset;
    uint32_t batch_bytes, batch_records;
} Topic;

typedef struct {
    int fd;
    uint8_t *data;
    size_t length;
} Connection;

static Topic topics[TOPICS];
static int topic_count;
static const char *directory;
static Buffer replies;

static Topic *find_topic(const uint8_t *name, size_t length) {
    for (int i = 0; i < topic_count; i++)
        if (strlen(topics[i].name) == length && !memcmp(topics[i].name, name, length)) return &topics[i];
    if (topic_count == TOPICS || length > 200) die("too many topics");
    Topic *t = &topics[topic_count++];
    memcpy(t->name, name, length);
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, t->name);
    if ((t->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) < 0) die(path);
    return t;
}

static size_t begin_reply(uint32_t correlation) {
    size_t at = replies.length;
    put32(&replies, 0);
    put32(&replies, correlation);
    put8(&replies, 0);
    return at;
}

static void send_all(int fd, int flags) {
    for (size_t sent = 0; sent < replies.length;) {
        ssize_t n = send(fd, replies.data + sent, replies.length - sent, flags | MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR) break;
        if (n > 0) sent += n;
    }
    replies.length = 0;
}

/* A compact string or array length at *p: the count behind it. */
static size_t compact_length(const uint8_t **p) { return (size_t)get_uvarint(p) - 1; }

static void produce(const uint8_t *p, uint32_t correlation) {
    p += 1;
    int16_t acks = (int16_t)get16(p);
    p += 6 + 1;
    size_t name_length = compact_length(&p);
    const uint8_t *name = p;
    p += name_length + 1;
    uint32_t partition = get32(p);
    p += 4;
    size_t batch_length = compact_length(&p);
    Topic *t = find_topic(name, name_length);
    uint8_t *batch = (uint8_t *)p;
    uint16_t error = 0;
    if (crc32c(batch + BATCH_ATTRIBUTES, batch_length - BATCH_ATTRIBUTES) != get32(batch + BATCH_CRC)) error = 2;
    uint64_t base = t->next_offset;
    set64(batch, base);
    if (pwrite(t->fd, batch, batch_length, (off_t)t->size) != (ssize_t)batch_length) die("pwrite");
    t->batch_bytes = (uint32_t)batch_length;
    t->batch_records = get32(batch + BATCH_LAST_DELTA) + 1;
    t->size += batch_length;
    t->next_offset += t->batch_records;
    if (acks == 0) return;
    size_t at = begin_reply(correlation);
    put8(&replies, 2);
    put_uvarint(&replies, name_length + 1);
    put_bytes(&replies, name, name_length);
    put8(&replies, 2);
    put32(&replies, partition);
    put16(&replies, error);
    put64(&replies, base);
    put64(&replies, (uint64_t)-1);
    put64(&replies, 0);
    put8(&replies, 1);
    put8(&replies, 0);
    put16(&replies, 0);
    put32(&replies, 0);
    put8(&replies, 0);
    set32(replies.data + at, (uint32_t)(replies.length - at - 4));
}

static void fetch(int fd, const uint8_t *p, uint32_t correlation) {
    p += 4 + 4 + 4 + 4 + 1 + 4 + 4 + 1;
    size_t name_length = compact_length(&p);
    const uint8_t *name = p;
    p += name_length + 1;
    uint32_t partition = get32(p);
    uint64_t offset = get64(p + 8);
    Topic *t = find_topic(name, name_length);
    off_t position = (off_t)(offset / t->batch_records * t->batch_bytes);
    uint32_t length = t->batch_bytes;
    size_t at = begin_reply(correlation);
    put32(&replies, 0);
    put16(&replies, 0);
    put32(&replies, 0);
    put8(&replies, 2);
    put_uvarint(&replies, name_length + 1);
    put_bytes(&replies, name, name_length);
    put8(&replies, 2);
    put32(&replies, partition);
    put16(&replies, 0);
    put64(&replies, t->next_offset);
    put64(&replies, t->next_offset);
    put64(&replies, 0);
    put8(&replies, 0);
    put32(&replies, (uint32_t)-1);
    put_uvarint(&replies, (uint64_t)length + 1);
    set32(replies.data + at, (uint32_t)(replies.length - at - 4 + length + 3));
    if (length <= 32 * 1024) {
        if (pread(t->fd, grow(&replies, length), length, position) != (ssize_t)length) die("pread");
    } else {
        send_all(fd, MSG_MORE);
        for (uint32_t left = length; left;) {
            ssize_t n = sendfile(fd, t->fd, &position, left);
            if (n <= 0) return;
            left -= (uint32_t)n;
        }
    }
    put8(&replies, 0);
    put8(&replies, 0);
    put8(&replies, 0);
}

static void handle(int fd, const uint8_t *frame) {
    uint32_t correlation = get32(frame + 4);
    size_t client_length = get16(frame + 8);
    const uint8_t *body = frame + 10 + client_length + 1;
    if (get16(frame) == API_PRODUCE) produce(body, correlation);
    else if (get16(frame) == API_FETCH) fetch(fd, body, correlation);
}

/* False when the peer is gone. A frame larger than one read is received to its end and no further: no bytes to move. */
static int serve(Connection *c) {
    size_t want = READ_BYTES;
    if (c->length >= 4 && get32(c->data) + 4 > READ_BYTES) want = get32(c->data) + 4 - c->length;
    ssize_t n = recv(c->fd, c->data + c->length, want, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return 0;
    if (n < 0) return 1;
    c->length += (size_t)n;
    size_t at = 0;
    while (c->length - at >= 4 && c->length - at >= 4 + (size_t)get32(c->data + at)) {
        handle(c->fd, c->data + at + 4);
        at += 4 + get32(c->data + at);
    }
    if (replies.length) send_all(c->fd, 0);
    c->length -= at;
    if (at && c->length) memmove(c->data, c->data + at, c->length);
    return 1;
}

static void accept_one(int epoll, int listener) {
    Connection *c = calloc(1, sizeof *c);
    if ((c->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0) die("accept");
    c->data = malloc(LARGEST_FRAME);
    int one = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: limit DIRECTORY; prints its port on 127.0.0.1\n");
        return 2;
    }
    directory = argv[1];
    signal(SIGPIPE, SIG_IGN); /* sendfile to a client that left */
    crc_init();
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 4096)) die("listen");
    getsockname(listener, (struct sockaddr *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN}, ready[64];
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int count = epoll_wait(epoll, ready, 64, -1);
        for (int i = 0; i < count; i++) {
            Connection *c = ready[i].data.ptr;
            if (!c) accept_one(epoll, listener);
            else if (!serve(c)) {
                close(c->fd);
                free(c->data);
                free(c);
            }
        }
    }
}
