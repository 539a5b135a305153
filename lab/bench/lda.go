package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/tierml/tierml/apps"
	"github.com/tierml/tierml/apps/lda"
	"github.com/tierml/tierml/ps"
)

// topicModels compares sweeps of `tierml train` with those of plda, a plain exact sampler, on one thread each.
var topicModels = Group{
	Name: "lda", Title: "Topic models, tokens/s of one thread", Pairs: 3,
	Open: openTopicModels,
}

// warmUp is the number of sweeps before the measurement: the first ones have more topics in each document.
const warmUp = 3

// topicBars are the required ratios, by number of topics.
var topicBars = []struct {
	topics int
	bar    float64
}{{100, 5}, {1000, 30}}

func openTopicModels(ctx context.Context, env *Env) (rows []Row, closeAll func(), err error) {
	var open []*Process
	closeAll = func() {
		for _, p := range open {
			p.Close()
		}
	}
	data := filepath.Join(env.Dir, "docword.generated.txt")
	tokens, err := generateDocuments(data)
	if err != nil {
		return nil, closeAll, err
	}
	theirs, skip := compilePlda(ctx, env)
	for _, b := range topicBars {
		row := Row{What: fmt.Sprintf("generated documents, %d topics", b.topics), Against: "plda", Unit: "tokens/s", Bar: b.bar, Skip: skip}
		if skip == "" {
			ours, err := Start(ctx, nil, env.Self, "lda-train", data, strconv.Itoa(b.topics))
			if err != nil {
				return nil, closeAll, err
			}
			open = append(open, ours)
			peer, err := Start(ctx, nil, theirs, data, strconv.Itoa(b.topics))
			if err != nil {
				return nil, closeAll, err
			}
			open = append(open, peer)
			for _, p := range []*Process{ours, peer} {
				if _, err := p.Ask("sweeps %d", warmUp); err != nil {
					return nil, closeAll, err
				}
			}
			row.Ours, row.Theirs = sweepRate(ours, tokens, 3), sweepRate(peer, tokens, 1)
		}
		rows = append(rows, row)
	}
	return rows, closeAll, nil
}

func sweepRate(p *Process, tokens, sweeps int) Measure {
	return func(context.Context) (float64, error) {
		answer, err := p.Ask("sweeps %d", sweeps)
		if err != nil {
			return 0, err
		}
		return float64(tokens*sweeps) / (answer[0] / 1e9), nil
	}
}

// compilePlda compiles our program against plda's sources.
func compilePlda(ctx context.Context, env *Env) (program, skip string) {
	folder, skip := env.Peer("PLDA", among("plda"))
	if skip != "" {
		return "", skip
	}
	args := []string{"-std=gnu++98", "-w", "-I" + folder}
	for _, source := range []string{"common", "document", "model", "accumulative_model", "sampler"} {
		args = append(args, filepath.Join(folder, source+".cc"))
	}
	return env.Compile(ctx, "plda.cc", args...)
}

// generateDocuments writes documents that mix three of 50 topics each; the words of a topic follow Zipf's law in an
// order of its own. It always writes the same bytes.
func generateDocuments(path string) (tokens int, err error) {
	const documents, words, trueTopics, length = 3000, 20000, 50, 150
	stream := apps.NewStream(1, 0, 0)
	uniform := func() float64 { return float64(stream.Uint64()>>11) / (1 << 53) }
	var lines bytes.Buffer
	entries := 0
	for d := range documents {
		mix := [3]int{stream.Below(trueTopics), stream.Below(trueTopics), stream.Below(trueTopics)}
		counts := map[int]int{}
		for range length/2 + stream.Below(length) {
			rank := uint64(math.Exp(uniform()*math.Log(words))) - 1 // log-uniform: p(rank) falls as 1/rank
			topic := mix[stream.Below(len(mix))]
			counts[int(ps.Hash(uint64(topic), rank)%words)]++
			tokens++
		}
		var used []int
		for w := range counts {
			used = append(used, w)
		}
		slices.Sort(used)
		for _, w := range used {
			fmt.Fprintf(&lines, "%d %d %d\n", d+1, w+1, counts[w])
			entries++
		}
	}
	content := fmt.Appendf(nil, "%d\n%d\n%d\n", documents, words, entries)
	return tokens, os.WriteFile(path, append(content, lines.Bytes()...), 0o600)
}

// sweepTopics is our side, a process: for each line "sweeps N" it does N sweeps in place with one thread and
// prints the elapsed nanoseconds.
func sweepTopics(args []string) error {
	flags := flag.NewFlagSet("lda-train", flag.ContinueOnError)
	if err := flags.Parse(args); err != nil {
		return err
	}
	topics, err := strconv.Atoi(flags.Arg(1))
	if err != nil {
		return err
	}
	trainer, err := openTrainer(flags.Arg(0), topics)
	if err != nil {
		return err
	}
	fmt.Println("ready", os.Getpid())
	clock := ps.Clock(0)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var sweeps int
		if _, err := fmt.Sscanf(in.Text(), "sweeps %d", &sweeps); err != nil {
			return err
		}
		began := time.Now()
		for range sweeps {
			clock++
			if _, err := trainer.Step(clock, false); err != nil {
				return err
			}
		}
		fmt.Println(time.Since(began).Nanoseconds())
	}
	return nil
}

// memoryFile is a split's file in memory.
type memoryFile struct{ *bytes.Buffer }

func (memoryFile) Close() error { return nil }

func openTrainer(path string, topics int) (apps.DirectTrainer, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var split bytes.Buffer
	create := func(ps.Split) (io.WriteCloser, error) { return memoryFile{&split}, nil }
	data, err := lda.Kind{}.Prepare(apps.Input{Name: path, Data: file}, apps.Cut{Splits: 1}, create)
	if err != nil {
		return nil, err
	}
	program, err := lda.Kind{}.New(apps.Params{"topics": topics}, data)
	if err != nil {
		return nil, err
	}
	direct, can := program.(apps.Direct)
	if !can {
		return nil, errors.New("topic models do not train in place")
	}
	return direct.NewDirect(func(ps.Split) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(split.Bytes())), nil }, 1, 1)
}
