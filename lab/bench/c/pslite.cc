// ps-lite doing what the parameter server rows of `make bench` do: push a vector of float32, which the server adds to
// one in its memory, and pull it back. It is linked with ps-lite's library, which is built outside of this repository;
// lab/bench/results.md says how.
//
// The vector is one key with many values, sent without a copy: the form that suits ps-lite best. Run it once for each
// role, with ps-lite's environment variables. The worker prints "ready PID". Then for each line "MODE BYTES PAIRS" on
// standard input it does so many pushes and pulls and prints the nanoseconds. MODE is sync (each request after the
// last one's answer) or pipelined (8 requests in flight).
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "ps/ps.h"

namespace {

std::unordered_map<ps::Key, std::vector<float>> table;

void Handle(const ps::KVMeta &meta, const ps::KVPairs<float> &request, ps::KVServer<float> *server) {
  ps::KVPairs<float> answer;
  auto &row = table[request.keys[0]];
  if (meta.push) {
    if (row.size() < request.vals.size()) row.resize(request.vals.size());
    const float *from = request.vals.data();
    float *to = row.data();
    for (size_t i = 0, n = request.vals.size(); i < n; i++) to[i] += from[i];
  } else {
    answer.keys = request.keys;
    answer.vals.CopyFrom(row.data(), row.size());  // the row may change while the answer is on its way
    answer.lens.push_back(static_cast<int>(row.size()));
  }
  server->Response(meta, answer);
}

constexpr size_t kInFlight = 8;

class Worker {
 public:
  Worker() : kv_(0, 0) {}

  long long Run(bool pipelined, size_t bytes, long pairs) {
    const size_t n = bytes / 4;
    ps::SArray<ps::Key> key(std::vector<ps::Key>{bytes});
    ps::SArray<int> length(std::vector<int>{static_cast<int>(n)});
    ps::SArray<float> values(n, 1);
    std::vector<ps::SArray<float>> back(kInFlight);
    std::vector<ps::SArray<int>> lengths(kInFlight);
    for (size_t i = 0; i < kInFlight; i++) {
      back[i].resize(n);
      lengths[i].resize(1);
    }
    kv_.Wait(kv_.ZPush(key, values, length));  // the row exists before the clock runs
    const auto begin = std::chrono::steady_clock::now();
    std::deque<int> flying;
    for (long i = 0; i < pairs; i++) {
      Add(&flying, pipelined, kv_.ZPush(key, values, length));
      Add(&flying, pipelined, kv_.ZPull(key, &back[i % kInFlight], &lengths[i % kInFlight]));
    }
    for (int request : flying) kv_.Wait(request);
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  void Add(std::deque<int> *flying, bool pipelined, int request) {
    flying->push_back(request);
    while (flying->size() >= (pipelined ? kInFlight : 1)) {
      kv_.Wait(flying->front());
      flying->pop_front();
    }
  }

  ps::KVWorker<float> kv_;
};

void RunWorker() {
  Worker worker;
  std::printf("ready %d\n", static_cast<int>(getpid()));
  std::fflush(stdout);
  char mode[16];
  size_t bytes;
  long pairs;
  while (std::scanf("%15s %zu %ld", mode, &bytes, &pairs) == 3) {
    std::printf("%lld\n", worker.Run(std::string(mode) == "pipelined", bytes, pairs));
    std::fflush(stdout);
  }
}

}  // namespace

int main() {
  ps::Start(0);
  if (ps::IsServer()) {
    auto server = new ps::KVServer<float>(0);
    server->set_request_handle(Handle);
    ps::RegisterExitCallback([server]() { delete server; });
  }
  if (ps::IsWorker()) RunWorker();
  ps::Finalize(0, true);
}
