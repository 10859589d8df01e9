/*
 * A service that is never the bottleneck: one thread, epoll, kept-alive HTTP/1.1, TLS when it is given a certificate.
 * It answers each request with a transaction of the reference that was asked for, and prints its port first.
 *
 *     cc -O2 server.c -o server -lssl -lcrypto && ./server [certificate.pem key.pem]
 *     cc -O2 -DWITHOUT_TLS server.c -o server && ./server
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#ifndef WITHOUT_TLS
#include <openssl/err.h>
#include <openssl/ssl.h>
#endif

enum { LONGEST_REQUEST = 8192, LONGEST_REFERENCE = 256, MOST_EVENTS = 256 };

typedef struct {
    int socket;
    size_t filled;
    char buffer[LONGEST_REQUEST + 1];
#ifndef WITHOUT_TLS
    SSL *tls;
#endif
} Connection;

#ifndef WITHOUT_TLS
static SSL_CTX *context;
#endif

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void hang_up(Connection *connection) {
#ifndef WITHOUT_TLS
    if (connection->tls) SSL_free(connection->tls);
#endif
    close(connection->socket);
    free(connection);
}

/* Return the bytes read, 0 when there are none now, -1 when the connection is over. */
static int receive(Connection *connection) {
    char *end = connection->buffer + connection->filled;
    size_t room = LONGEST_REQUEST - connection->filled;
#ifndef WITHOUT_TLS
    if (connection->tls) {
        ERR_clear_error(); /* what another connection did is no business of this one */
        int count = SSL_read(connection->tls, end, (int)room);
        if (count > 0) return count;
        int reason = SSL_get_error(connection->tls, count);
        return reason == SSL_ERROR_WANT_READ || reason == SSL_ERROR_WANT_WRITE ? 0 : -1;
    }
#endif
    ssize_t count = read(connection->socket, end, room);
    if (count > 0) return (int)count;
    return count < 0 && errno == EAGAIN ? 0 : -1;
}

/* An answer fits into the socket's buffer, because a client has one request under way in each connection. */
static int transmit(Connection *connection, const char *bytes, int count) {
#ifndef WITHOUT_TLS
    ERR_clear_error();
    if (connection->tls) return SSL_write(connection->tls, bytes, count) == count ? 0 : -1;
#endif
    return write(connection->socket, bytes, (size_t)count) == count ? 0 : -1;
}

static int answer(Connection *connection, const char *body, size_t length) {
    static const char key[] = "\"reference\":\"", alternative[] = "\"reference\": \"";
    const char *reference = memmem(body, length, key, sizeof key - 1);
    size_t skip = sizeof key - 1;
    if (!reference) {
        reference = memmem(body, length, alternative, sizeof alternative - 1);
        skip = sizeof alternative - 1;
    }
    if (!reference) return -1;
    reference += skip;
    const char *quote = memchr(reference, '"', length - (size_t)(reference - body));
    if (!quote || quote - reference > LONGEST_REFERENCE) return -1;
    char document[1024], message[1536];
    int size = snprintf(
        document, sizeof document,
        "{\"success\":true,\"message\":\"\",\"data\":{\"reference\":\"%.*s\",\"merchant_reff\":\"INV-2023-0042\",\"payment_method\":\"BRIVA\","
        "\"payment_name\":\"BRI Virtual Account\",\"amount\":153500,\"fee\":3500,\"amount_received\":150000,"
        "\"payment_code\":\"57585748548596587\",\"expdate\":\"2023-06-30 22:11:43\",\"status\":\"UNPAID\"}}",
        (int)(quote - reference), reference);
    int total = snprintf(
        message, sizeof message, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
        size, document);
    return transmit(connection, message, total);
}

/* Answer every whole request in the buffer; return -1 when the connection is over. */
static int serve(Connection *connection) {
    for (;;) {
        connection->buffer[connection->filled] = 0;
        char *end = strstr(connection->buffer, "\r\n\r\n");
        if (!end) return 0;
        char *header = strcasestr(connection->buffer, "content-length:");
        if (!header || header > end) return -1;
        size_t body = strtoul(header + strlen("content-length:"), NULL, 10);
        size_t whole = (size_t)(end + 4 - connection->buffer) + body;
        if (whole > LONGEST_REQUEST) return -1;
        if (connection->filled < whole) return 0;
        if (answer(connection, end + 4, body)) return -1;
        connection->filled -= whole;
        memmove(connection->buffer, connection->buffer + whole, connection->filled);
    }
}

static int go_on(Connection *connection) {
    for (;;) {
        int count = receive(connection);
        if (count <= 0) return count;
        connection->filled += (size_t)count;
        if (serve(connection) || connection->filled == LONGEST_REQUEST) return -1;
    }
}

static void welcome(int poll, int listener) {
    int socket = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    if (socket < 0) return;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    Connection *connection = calloc(1, sizeof *connection);
    if (!connection) die("calloc");
    connection->socket = socket;
#ifndef WITHOUT_TLS
    if (context) {
        connection->tls = SSL_new(context);
        SSL_set_fd(connection->tls, socket);
        SSL_set_accept_state(connection->tls);
    }
#endif
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    if (epoll_ctl(poll, EPOLL_CTL_ADD, socket, &event)) die("epoll_ctl");
}

int main(int count, char **names) {
    signal(SIGPIPE, SIG_IGN); /* a client may hang up while it is written to; that ends its connection only */
#ifndef WITHOUT_TLS
    if (count == 3) {
        context = SSL_CTX_new(TLS_server_method());
        if (SSL_CTX_use_certificate_chain_file(context, names[1]) != 1) die(names[1]);
        if (SSL_CTX_use_PrivateKey_file(context, names[2], SSL_FILETYPE_PEM) != 1) die(names[2]);
    }
#else
    (void)count, (void)names;
#endif
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 1024)) die("listen");
    getsockname(listener, (struct sockaddr *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    int poll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[MOST_EVENTS];
    if (epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event)) die("epoll_ctl");
    for (;;) {
        int ready = epoll_wait(poll, events, MOST_EVENTS, -1);
        for (int i = 0; i < ready; i++) {
            if (!events[i].data.ptr) welcome(poll, listener);
            else if (go_on(events[i].data.ptr)) hang_up(events[i].data.ptr);
        }
    }
}
