/* What a parameter server over blocking TCP costs in C: the yardstick of `make bench`.
 *
 * A push sends a vector of float32, which the server adds to one in its memory, and waits for an acknowledgement; a
 * pull brings that vector back. One client, one connection, no framing beyond 16 bytes.
 *
 * It prints "ready SERVER_PID CLIENT_PID". Then for each line "sync BYTES PAIRS" on standard input it does so many
 * pushes and pulls, each pull after its push, and prints the nanoseconds that they took. With arguments, the numbers of two
 * cores, the server keeps to the first and the client to the second.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PUSH = 1, PULL = 2, MAX_BYTES = 64 << 20 };

struct header { uint64_t kind, bytes; };

static void check(int ok, const char *what) {
  if (!ok) {
    perror(what);
    exit(1);
  }
}

/* receive reads exactly n bytes; 0 at the end of the stream. */
static int receive(int fd, void *to, size_t n) {
  for (char *p = to; n > 0;) {
    ssize_t got = recv(fd, p, n, 0);
    if (got <= 0) return 0;
    p += got;
    n -= got;
  }
  return 1;
}

static int transmit(int fd, const void *from, size_t n, int flags) {
  for (const char *p = from; n > 0;) {
    ssize_t sent = send(fd, p, n, flags | MSG_NOSIGNAL);
    if (sent <= 0) return 0;
    p += sent;
    n -= sent;
  }
  return 1;
}

/* tune sets what ours sets within a host: no delay, and a congestion control that does not pace by timers. */
static void tune(int fd) {
  int one = 1;
  check(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0, "TCP_NODELAY");
  check(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) == 0, "TCP_CONGESTION");
}

static float *vector(void) {
  float *v = aligned_alloc(64, MAX_BYTES);
  check(v != NULL, "memory");
  memset(v, 0, MAX_BYTES);
  return v;
}

static void serve(int fd) {
  float *held = vector(), *got = vector();
  for (struct header h; receive(fd, &h, sizeof h);) {
    if (h.bytes > MAX_BYTES) exit(1);
    if (h.kind == PUSH) {
      if (!receive(fd, got, h.bytes)) break;
      for (size_t i = 0; i < h.bytes / 4; i++) held[i] += got[i];
      h.bytes = 0;
      if (!transmit(fd, &h, sizeof h, 0)) break;
    } else if (!transmit(fd, &h, sizeof h, MSG_MORE) || !transmit(fd, held, h.bytes, 0)) {
      break;
    }
  }
  exit(0);
}

static void ask(int fd, const float *send, float *back, size_t bytes) {
  struct header push = {PUSH, bytes}, pull = {PULL, bytes}, answer;
  check(transmit(fd, &push, sizeof push, MSG_MORE) && transmit(fd, send, bytes, 0), "push");
  check(receive(fd, &answer, sizeof answer), "acknowledgement");
  check(transmit(fd, &pull, sizeof pull, 0), "pull");
  check(receive(fd, &answer, sizeof answer) && receive(fd, back, answer.bytes), "values");
}

static void pin(const char *core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(atoi(core), &cores);
  check(sched_setaffinity(0, sizeof cores, &cores) == 0, "sched_setaffinity");
}

int main(int argc, char **argv) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  check(bind(listener, (void *)&at, size) == 0 && listen(listener, 1) == 0, "listen");
  check(getsockname(listener, (void *)&at, &size) == 0, "getsockname");
  pid_t server = fork();
  check(server >= 0, "fork");
  if (server == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc > 2) pin(argv[1]);
    int fd = accept(listener, NULL, NULL);
    check(fd >= 0, "accept");
    tune(fd);
    serve(fd);
  }
  if (argc > 2) pin(argv[2]);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  check(connect(fd, (void *)&at, size) == 0, "connect");
  tune(fd);
  float *send = vector(), *back = vector();
  for (size_t i = 0; i < MAX_BYTES / 4; i++) send[i] = 1;
  printf("ready %d %d\n", (int)server, (int)getpid());
  fflush(stdout);

  char mode[16];
  size_t bytes;
  long pairs;
  while (scanf("%15s %zu %ld", mode, &bytes, &pairs) == 3 && bytes <= MAX_BYTES) {
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (long i = 0; i < pairs; i++) ask(fd, send, back, bytes);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%lld\n", (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec);
    fflush(stdout);
  }
  return 0;
}
