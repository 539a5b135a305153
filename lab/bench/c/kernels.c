// The inner loops in C, as a compiler makes them: for each line "dot N CALLS" or "axpy N CALLS" it prints the nanoseconds
// that so many calls took.
#include <stdio.h>
#include <string.h>
#include <time.h>

__attribute__((noinline)) float dot(const float *a, const float *b, int n) {
  float sum = 0;
  for (int i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

__attribute__((noinline)) void axpy(float a, const float *restrict x, float *restrict y, int n) {
  for (int i = 0; i < n; i++) y[i] += a * x[i];
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * t.tv_sec + t.tv_nsec;
}

volatile float sink;

int main(void) {
  static _Alignas(64) float a[4096], b[4096];
  for (int i = 0; i < 4096; i++) a[i] = i % 7, b[i] = i % 5;
  char what[16];
  int n;
  long calls;
  printf("ready\n");
  fflush(stdout);
  while (scanf("%15s %d %ld", what, &n, &calls) == 3 && n <= 4096) {
    double began = now();
    if (!strcmp(what, "dot"))
      for (long i = 0; i < calls; i++) sink = dot(a, b, n);
    else
      for (long i = 0; i < calls; i++) axpy(1e-9f, a, b, n);
    printf("%.0f\n", now() - began);
    fflush(stdout);
  }
  return 0;
}
