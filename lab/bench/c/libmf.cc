// LIBMF's solver (github.com/cjlin1/libmf), timed from within. Arguments: a file of training ratings and one of test
// ratings. For each line "passes K THREADS N" it trains with and without N further passes and prints the nanoseconds that
// they took; for "rmse K N" it prints the RMSE of the test ratings after N passes.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <utility>
#include <vector>
#include <unistd.h>

#include "mf.h"

using namespace mf;

static const float penalty = PENALTY;

static double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

struct Ratings {
  std::vector<mf_node> nodes;
  mf_problem problem;
};

static bool read(const char* path, Ratings& r) {
  FILE* in = fopen(path, "r");
  if (!in) return false;
  mf_node n;
  memset(&r.problem, 0, sizeof r.problem);
  while (fscanf(in, "%d %d %f", &n.u, &n.v, &n.r) == 3) {
    r.nodes.push_back(n);
    if (n.u >= r.problem.m) r.problem.m = n.u + 1;
    if (n.v >= r.problem.n) r.problem.n = n.v + 1;
  }
  fclose(in);
  r.problem.nnz = r.nodes.size();
  r.problem.R = r.nodes.data();
  return r.problem.nnz > 0;
}

static mf_model* train(const Ratings& r, int k, int threads, int passes, double* nanoseconds) {
  mf_parameter p = mf_get_default_param();
  p.k = k;
  p.nr_threads = threads;
  p.nr_iters = passes;
  p.lambda_p2 = p.lambda_q2 = penalty;
  p.quiet = true;
  double began = now();
  mf_model* model = mf_train(&r.problem, p);
  *nanoseconds = now() - began;
  return model;
}

int main(int argc, char** argv) {
  Ratings ratings, test;
  if (argc < 3 || !read(argv[1], ratings) || !read(argv[2], test)) return 2;
  printf("ready %d\n", getpid());
  fflush(stdout);
  char line[256];
  std::map<std::pair<int, int>, double> first;  // by K and threads: a run of one pass
  while (fgets(line, sizeof line, stdin)) {
    int k, threads, passes;
    double took;
    if (sscanf(line, "passes %d %d %d", &k, &threads, &passes) == 3) {
      std::pair<int, int> which(k, threads);
      for (int i = first.count(which) ? 2 : 0; i < 3; i++) {
        mf_model* model = train(ratings, k, threads, 1, &took);
        mf_destroy_model(&model);
        if (!first.count(which) || took < first[which]) first[which] = took;
      }
      mf_model* model = train(ratings, k, threads, 1 + passes, &took);
      mf_destroy_model(&model);
      printf("%.0f\n", took - first[which]);
    } else if (sscanf(line, "rmse %d %d", &k, &passes) == 2) {
      mf_model* model = train(ratings, k, 1, passes, &took);
      printf("%.6f\n", calc_rmse(&test.problem, model));
      mf_destroy_model(&model);
    } else {
      return 2;
    }
    fflush(stdout);
  }
}
