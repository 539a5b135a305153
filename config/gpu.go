package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/internal/spelling"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/market/shapes"
)

// GPU says which GPUs a machine must have: how many of a model, or with how much memory each at least.
type GPU struct {
	Model  string  // empty = any
	GB     float64 // of each, as vendors count: 10^9 bytes; 0 = any
	Count  int     // 0 = none is requested
	OrMore bool    // than Count
}

// Admits reports whether a machine with these GPUs will do.
func (g GPU) Admits(has market.GPU) bool {
	return g.Count == 0 || (has.Count == g.Count || g.OrMore && has.Count > g.Count) &&
		(g.Model == "" || g.Model == has.Name) && int64(g.GB*1e9)>>20 <= has.MemoryMiB
}

// String returns "L40S:1", "A100:80GB:8+", "24GB:1".
func (g GPU) String() string {
	var parts []string
	if g.Model != "" {
		parts = append(parts, g.Model)
	}
	if g.GB > 0 {
		parts = append(parts, strconv.FormatFloat(g.GB, 'f', -1, 64)+"GB")
	}
	return strings.Join(append(parts, strconv.Itoa(g.Count)+plus(g.OrMore)), ":")
}

// WantsGPUs reports whether the job requests GPUs.
func (j *Job) WantsGPUs() bool {
	return len(j.Resources.GPU) > 0 || slices.ContainsFunc(j.Resources.AnyOf, func(m Machine) bool { return m.GPU.Count > 0 })
}

var (
	gpuCount  = pattern.Of(`^([0-9]+)(\+?)$`)
	gpuMemory = pattern.Of(`(?i)^([0-9]+(?:\.[0-9]+)?) ?([GT])i?B?\+?$`)
	gpuMark   = strings.NewReplacer("-", "", "_", "", " ", "")
)

// parseGPU reads "L40S", "L40S:1", "A100:80GB:8", "A100-80GB:8", "24GB:1+", "1".
func parseGPU(s string) (GPU, *mistake) {
	const forms = "write a model and how many, such as L40S:1, A100:80GB:8 (memory of each, at least) or 24GB:1 (any model)"
	g := GPU{Count: 1}
	counted := false
	for _, part := range strings.Split(s, ":") {
		part = strings.TrimSpace(part)
		count, memory := gpuCount().FindStringSubmatch(part), gpuMemory().FindStringSubmatch(part)
		switch {
		case count != nil && !counted:
			n, err := strconv.Atoi(count[1])
			if err != nil || n < 1 || n > 1<<10 {
				return GPU{}, wrong(forms, "%q is not a number of GPUs", part)
			}
			g.Count, g.OrMore, counted = n, count[2] == "+", true
		case memory != nil && g.GB == 0:
			g.GB = gigabytes(memory)
		case count == nil && memory == nil && part != "" && g.Model == "":
			var m *mistake
			if g, m = g.named(part); m != nil {
				return GPU{}, m
			}
		default:
			return GPU{}, wrong(forms, "%q does not name GPUs", s)
		}
	}
	return g, nil
}

func gigabytes(memory []string) float64 {
	number, _ := strconv.ParseFloat(memory[1], 64)
	if strings.EqualFold(memory[2], "t") {
		number *= 1000
	}
	return math.Round(number*1000) / 1000
}

// named matches a model's name in any spelling: "a100", "A100-80GB", "nvidia-tesla-t4".
func (g GPU) named(word string) (GPU, *mistake) {
	models := shapes.GPUModels()
	if model, known := modelOf(word, models); known {
		g.Model = model
		return g, nil
	}
	if i := strings.LastIndexByte(word, '-'); i > 0 && g.GB == 0 {
		memory := gpuMemory().FindStringSubmatch(word[i+1:])
		if model, known := modelOf(word[:i], models); known && memory != nil {
			g.Model, g.GB = model, gigabytes(memory)
			return g, nil
		}
	}
	instead := "there is " + orList(models) + "; name the machine by its type if it has another"
	if near := spelling.Nearest(strings.ToUpper(word), models); near != "" {
		instead = fmt.Sprintf("did you mean %s? T%s", near, instead[1:])
	}
	return g, wrong(instead, "%q is not a GPU that EC2 or Compute Engine is known to have", word)
}

func modelOf(word string, models []string) (string, bool) {
	bare := strings.TrimPrefix(strings.TrimPrefix(gpuMark.Replace(strings.ToLower(word)), "nvidia"), "tesla")
	for _, model := range models {
		if gpuMark.Replace(strings.ToLower(model)) == bare {
			return model, true
		}
	}
	return "", false
}

// gpus resolves `resources.gpu`, which is short for entries of any_of, and checks that the machines of a job are comparable.
func (c *checker) gpus() {
	r := &c.job.Resources
	switch {
	case len(r.GPU) > 0 && len(r.AnyOf) > 0:
		c.fault("resources.gpu", "gpu and any_of are both given", "write gpu in the entries of any_of, and remove this one")
	case c.faultyBelow("resources.gpu"):
	default:
		for i, g := range r.GPU {
			r.AnyOf = append(r.AnyOf, Machine{GPU: g})
			c.job.positions[fmt.Sprintf("resources.any_of[%d]", i)] = c.job.positions["resources.gpu"]
		}
	}
	r.GPU = nil
	if !c.job.WantsGPUs() {
		return
	}
	if c.job.Run == "" && !c.job.IsHosts() && !c.broken("train") {
		c.fault("resources", "asks for GPUs, which the built-in applications do not use", "remove gpu, or write run: with a program of your own")
	}
	for i, m := range r.AnyOf {
		if m.GPU.Count == 0 && m.Type == "" && m.Rate == 0 {
			c.fault(fmt.Sprintf("resources.any_of[%d]", i), "asks for no GPU, and others do: their work cannot be compared", "write gpu here, too, or rate in every entry")
		}
	}
}
