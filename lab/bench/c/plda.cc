// Sweeps of plda's sampler (github.com/openbigdatagroup/plda), timed from within. Arguments: a docword file and the
// number of topics; alpha is 50 / topics and beta 0.01, as its own program has them. For each line "sweeps N" it does
// so many and prints the nanoseconds.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "accumulative_model.h"
#include "common.h"
#include "document.h"
#include "model.h"
#include "sampler.h"

using namespace learning_lda;

static double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char** argv) {
  FILE* in = argc > 2 ? fopen(argv[1], "r") : NULL;
  int documents, words, entries;
  if (!in || fscanf(in, "%d %d %d", &documents, &words, &entries) != 3) return 2;
  int topics = atoi(argv[2]);
  srand(1);
  std::map<std::string, int> index;
  LDACorpus corpus;
  DocumentWordTopicsPB* open = NULL;
  int last = 0, d, w, n;
  for (int i = 0; i <= entries; i++) {
    bool more = i < entries && fscanf(in, "%d %d %d", &d, &w, &n) == 3;
    if (open && (!more || d != last)) {
      corpus.push_back(new LDADocument(*open, topics));
      delete open;
      open = NULL;
    }
    if (!more) break;
    if (!open) open = new DocumentWordTopicsPB();
    last = d;
    char name[16];
    snprintf(name, sizeof name, "w%d", w);
    if (!index.count(name)) {
      int next = index.size();
      index[name] = next;
    }
    std::vector<int32> first;
    for (int j = 0; j < n; j++) first.push_back(RandInt(topics));
    open->add_wordtopics(name, index[name], first);
  }
  LDAModel model(topics, index);
  LDASampler sampler(50.0 / topics, 0.01, &model, NULL);
  sampler.InitModelGivenTopics(corpus);
  printf("ready %d\n", getpid());
  fflush(stdout);
  while (scanf(" sweeps %d", &n) == 1) {
    double began = now();
    for (int i = 0; i < n; i++) sampler.DoIteration(&corpus, true, true);
    printf("%.0f\n", now() - began);
    fflush(stdout);
  }
  return 0;
}
