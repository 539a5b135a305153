package jobinit

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tierml/tierml/apps/input"
	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/internal/location"
	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/planner"
	"github.com/tierml/tierml/planner/local"
)

// Dialogue fills in the wanted values.
type Dialogue struct {
	// In has the answers, and Out shows the questions; In is nil without a terminal: then missing answers are the suggested ones, and one
	// without a suggestion is an error that names its flag.
	In  io.Reader
	Out io.Writer
	// Apps are the applications' names.
	Apps []string
	// Targets are the applications that predict a column of a table.
	Targets []string
	// Clouds are what can be bought from.
	Clouds []string

	// File is the named job file; empty = none.
	File string

	answers *bufio.Scanner
	missing []string
}

// question is one question.
type question struct {
	flag, text, suggestion string
	optional               bool
	help                   string // where to get an answer, shown after an empty one
	check                  func(string) error
}

// mostEmpty is how often a required answer may be empty before the questions end.
const mostEmpty = 3

// errNoAnswer is the end of the answers.
var errNoAnswer = errors.New("stopped, as there are no more answers; nothing was written")

// ask returns an answer that passes its check. Given values are only checked.
func (d *Dialogue) ask(given string, q question) (string, error) {
	if q.check == nil {
		q.check = func(string) error { return nil }
	}
	if given != "" {
		if err := q.check(given); err != nil {
			return "", fmt.Errorf("--%s: %w", q.flag, err)
		}
		return given, nil
	}
	if d.In == nil {
		if q.suggestion == "" && !q.optional {
			d.missing = append(d.missing, "--"+q.flag)
			return "", nil
		}
		return q.suggestion, nil
	}
	if d.answers == nil {
		d.answers = bufio.NewScanner(d.In)
	}
	for empty := 1; ; {
		hint := ""
		switch {
		case q.suggestion != "":
			hint = " [" + q.suggestion + "]"
		case q.optional:
			hint = " [none]"
		}
		fmt.Fprintf(d.Out, "%s%s: ", q.text, hint)
		if !d.answers.Scan() {
			fmt.Fprintln(d.Out)
			if err := d.answers.Err(); err != nil {
				return "", fmt.Errorf("reading the answer: %w", err)
			}
			return "", errNoAnswer
		}
		answer := strings.TrimSpace(d.answers.Text())
		if answer == "" || q.optional && answer == "none" {
			answer = q.suggestion
		}
		if answer == "" && !q.optional {
			if empty == mostEmpty {
				return "", fmt.Errorf("--%s is needed%s; nothing was written", q.flag, q.help)
			}
			empty++
			fmt.Fprintf(d.Out, "  This one is needed%s.\n", q.help)
			continue
		}
		if answer != "" {
			if err := q.check(answer); err != nil {
				fmt.Fprintf(d.Out, "  %v\n", err)
				continue
			}
		}
		return answer, nil
	}
}

// named returns the suggested name: that of the job file, or of the job's input.
func (d *Dialogue) named(other string) string { return config.NameOf(cmp.Or(d.File, other)) }

// Fill asks the user for all missing values. Missing values that cannot be asked for are reported as one error.
func (d *Dialogue) Fill(w *Wanted) error {
	work := d.training
	if w.Script != "" {
		work = d.program
	}
	for _, part := range []func(*Wanted) error{work, d.cloud} {
		if err := part(w); err != nil {
			return err
		}
	}
	if given := w.forMachines(); w.Cloud == config.CloudNone && given != "" {
		return fmt.Errorf("--%s is for machines, and cloud: none buys none; leave it out, or name another --cloud", given)
	}
	if len(d.missing) == 0 && w.Cloud != config.CloudNone {
		if err := d.machines(w); err != nil {
			return err
		}
	}
	if len(d.missing) > 0 {
		way := ""
		if slices.Contains(d.missing, "--prices") {
			way = "; `tierml prices sample` writes a recording, which is suggested then"
		}
		if slices.Contains(d.missing, "--data") {
			way = ", or --script for a program of your own"
		}
		if slices.Contains(d.missing, "--target") {
			way = "; it names the column to predict, one of " + strings.Join(Propose(w.Data, "").Columns, ", ")
		}
		if slices.Contains(d.missing, "--app") && w.Data != "" {
			way += "; the first lines of " + w.Data + " show none, and docs/applications.md has the forms that each reads"
		}
		return fmt.Errorf("there is no terminal to ask on, and no suggestion for %s: add %s%s", strings.Join(d.missing, ", "),
			map[bool]string{true: "it", false: "them"}[len(d.missing) == 1], way)
	}
	return nil
}

// forMachines returns the first given flag that only applies if machines are bought; empty = none.
func (w *Wanted) forMachines() string {
	switch {
	case w.Budget != "":
		return "budget"
	case len(w.Types) > 0:
		return "types"
	case len(w.Zones) > 0:
		return "set zones"
	case w.Count != 0:
		return "count"
	case w.Reliable != "":
		return "set reliable"
	}
	return ""
}

func (d *Dialogue) training(w *Wanted) (err error) {
	if w.Data, err = d.ask(w.Data, question{flag: "data", text: "Training data (a file, s3:// or gs://), or a script of your own or its folder", suggestion: firstOf(
		"examples/data/jester5k.csv.gz", "data/jester5k.csv.gz"), check: func(path string) error {
		if isProgram(path) {
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				_, err = scriptOf(path)
				return err
			}
			return nil
		}
		if err := file(path); err != nil {
			return err
		}
		return readable(path)
	}}); err != nil {
		return err
	}
	if isProgram(w.Data) {
		w.Script, w.Data = w.Data, ""
		return d.program(w)
	}
	if w.Data == "" { // which the application and its column follow from
		return nil
	}
	if err := d.application(w); err != nil {
		return err
	}
	if w.Name, err = d.ask(w.Name, question{flag: "set name", text: "Name of the job", suggestion: d.named(w.Data), check: name}); err != nil {
		return err
	}
	clocks, err := d.ask(number(w.Clocks), question{flag: "clocks", text: "Rounds of work (clocks)",
		suggestion: number(config.UsualClocks(w.App)), check: whole})
	if err != nil {
		return err
	}
	w.Clocks, _ = strconv.Atoi(clocks)
	given := ""
	if w.StopLoss != 0 {
		given = fmt.Sprint(w.StopLoss)
	}
	loss, err := d.ask(given, question{flag: "set stop-loss", text: "Stop earlier when the test figure (such as RMSE) is at or below", optional: true, check: figure})
	if err != nil {
		return err
	}
	w.StopLoss, _ = strconv.ParseFloat(loss, 64)
	return nil
}

// application asks what to learn, and prints what is predicted.
func (d *Dialogue) application(w *Wanted) (err error) {
	proposed := Propose(w.Data, w.Target)
	if proposed.Guess && (w.App == "" || slices.Contains(d.Targets, w.App)) {
		w.Target, err = d.ask("", question{flag: "target", text: "Column to predict (" + strings.Join(proposed.Columns, ", ") + ")", check: among(proposed.Columns)})
		if err != nil || w.Target == "" {
			return err
		}
		proposed = Propose(w.Data, w.Target)
	}
	if proposed.App == "" && proposed.Why != "" {
		if _, err := fmt.Fprintln(d.Out, proposed.Why); err != nil {
			return err
		}
	}
	if w.App, err = d.ask(w.App, question{flag: "app", text: "Application (" + strings.Join(d.Apps, ", ") + ")",
		suggestion: proposed.App, check: among(d.Apps)}); err != nil {
		return err
	}
	if w.App != proposed.App || w.App == "" {
		return nil
	}
	if w.Target == "" && proposed.Target != "" {
		if w.Target, err = d.ask("", question{flag: "target", text: "Column to predict", suggestion: proposed.Target}); err != nil {
			return err
		}
		if w.Target != proposed.Target {
			proposed.Ignore = slices.DeleteFunc(proposed.Ignore, func(name string) bool { return name == w.Target })
		}
	}
	if len(w.Ignore) == 0 {
		w.Ignore = proposed.Ignore
	}
	said := w.App + ": " + proposed.Why
	if w.Target != "" {
		said += "; predicts the column " + w.Target + " (--target names another)"
	}
	if len(w.Ignore) > 0 {
		said += "; leaves out " + strings.Join(w.Ignore, ", ")
	}
	_, err = fmt.Fprintln(d.Out, said)
	return err
}

func (d *Dialogue) cloud(w *Wanted) (err error) {
	w.Cloud, err = d.ask(w.Cloud, question{flag: "cloud", text: "Where machines come from (" + strings.Join(d.Clouds, ", ") + ")",
		suggestion: config.CloudLocal, check: among(d.Clouds)})
	return err
}

// machines asks what to buy.
func (d *Dialogue) machines(w *Wanted) error {
	candidates, err := d.market(w)
	if err != nil || len(d.missing) > 0 {
		return err
	}
	if w.Program != nil {
		smallestFirst(candidates)
	}
	if d.In != nil && len(w.Types) == 0 && len(candidates) > 0 {
		showCandidates(d.Out, candidates, w.Program != nil)
	}
	types, _ := suggestTypes(candidates)
	known := make([]string, len(candidates))
	for i, c := range candidates {
		known[i] = c.Type.Name
	}
	answer, err := d.ask(strings.Join(w.Types, ","), question{flag: "types", text: "Acceptable machine types", suggestion: strings.Join(types, ","),
		check: func(text string) error {
			for _, t := range splitList(text) {
				if err := among(known)(t); err != nil && len(known) > 0 { // the cloud itself will report it later
					return err
				}
			}
			return nil
		}})
	if err != nil {
		return err
	}
	w.Types = splitList(answer)
	if len(w.Zones) == 0 {
		w.Zones = zonesOf(candidates, w.Types)
	}
	text := "How many transient machines"
	if vcpusOf(candidates, w.Types, 1) > 0 && w.Script == "" {
		text += " of the smallest type (of others as many as have its vCPUs)"
	}
	count, err := d.ask(number(w.Count), question{flag: "count", text: text, suggestion: map[bool]string{true: "1", false: "8"}[w.Program != nil], check: whole})
	if err != nil {
		return err
	}
	w.Count, _ = strconv.Atoi(count)
	if w.Script == "" { // of programs, machines are ranks
		w.VCPU = vcpusOf(candidates, w.Types, w.Count)
	}
	w.Budget, err = d.ask(w.Budget, question{flag: "budget", text: "The most that a run may cost, such as $20", optional: true, check: func(text string) error {
		if v, err := market.ParseUSD(strings.TrimPrefix(text, "$")); err != nil || v <= 0 {
			return fmt.Errorf("%q is not an amount of money; write one such as $20", text)
		}
		return nil
	}})
	return err
}

// source is where to get recordings and catalogs; replays is how to continue without.
const (
	source  = ": `tierml prices sample` writes some into data"
	replays = source + "; --cloud ec2 or gce needs none, and --cloud none buys no machines"
)

// market reads what can be bought.
func (d *Dialogue) market(w *Wanted) (candidates []Candidate, err error) {
	if w.Cloud == config.CloudLocal {
		if w.Prices, err = d.ask(w.Prices, question{flag: "prices", text: "Recorded spot prices (none: the sample of 2014)", check: file, help: replays,
			optional:   w.Provider != "gce" && w.Catalog == "",
			suggestion: firstOf("examples/data/aws-us-west-1a-c3-2014.csv.gz", "data/aws-us-west-1a-c3-2014.csv.gz")}); err != nil {
			return nil, err
		}
	}
	if w.Cloud == config.CloudLocal && w.Prices == "" && w.Catalog == "" && len(d.missing) == 0 {
		offers, err := recorded(w)
		if err != nil {
			return nil, err
		}
		return d.beginning(w, offers)
	}
	if w.Catalog != "" || !listed(w.Cloud) {
		if w.Catalog, err = d.ask(w.Catalog, question{flag: "catalog", text: "Machine types with their on-demand prices", check: file, help: source, suggestion: firstOf(
			"examples/data/aws-ondemand-us-west-1-2015-04-02.csv", "data/aws-ondemand-us-west-1-2015-04-02.csv")}); err != nil {
			return nil, err
		}
	}
	if len(d.missing) > 0 {
		return nil, nil
	}
	if w.Cloud == config.CloudLocal {
		offers, err := recorded(w)
		if err != nil {
			return nil, err
		}
		return d.beginning(w, offers)
	}
	if err := d.settings(w); err != nil || len(d.missing) > 0 {
		return nil, err
	}
	if w.Catalog == "" {
		return nil, nil
	}
	catalog, err := local.ReadCatalog(w.Catalog)
	if err != nil {
		return nil, fmt.Errorf("--catalog %s: %w", w.Catalog, err)
	}
	region := regionOf(w.Settings)
	candidates = typesOfCatalog(catalog, region)
	if len(candidates) == 0 {
		return nil, fmt.Errorf("the catalog %s has no types of the region %q, where the installation is; it has %s",
			w.Catalog, region, strings.Join(catalog.Regions(), ", "))
	}
	return candidates, nil
}

// listed reports whether a cloud's own price list is queried for types and on-demand prices when a job is
// planned.
func listed(cloud string) bool { return slices.Contains(config.RealClouds(), cloud) }

func recorded(w *Wanted) ([]planner.Offer, error) {
	m, err := local.Load(&config.Job{Provider: w.Provider, Local: config.Local{Prices: w.Prices, Catalog: w.Catalog}})
	if faults, ok := errors.AsType[config.Faults](err); ok { // of a job that init composed
		return nil, fmt.Errorf("--%s: %s; %s", strings.TrimPrefix(faults[0].Field, "local."), faults[0].Problem, faults[0].Instead)
	}
	if err != nil {
		return nil, err
	}
	offers, _ := m.Offers()
	if len(offers) == 0 {
		return nil, fmt.Errorf("no type of %s is in the catalog %s: they are of different regions or providers", w.Prices, w.Catalog)
	}
	return offers, nil
}

// beginning asks when in the recording to start, and returns what is sold then.
func (d *Dialogue) beginning(w *Wanted, offers []planner.Offer) ([]Candidate, error) {
	usual, _ := startOf(offers)
	given := ""
	if !w.Start.IsZero() {
		given = w.Start.UTC().Format(time.RFC3339)
	}
	answer, err := d.ask(given, question{flag: "set start", text: "Time in the recording to begin at", suggestion: usual.Format(time.RFC3339),
		check: func(text string) error {
			at, err := time.Parse(time.RFC3339, text)
			if err != nil {
				return fmt.Errorf("%q is not a time; write one such as %s", text, usual.Format(time.RFC3339))
			}
			if len(typesWithPrices(offers, at)) == 0 {
				return fmt.Errorf("no type of the catalog has a spot price below its on-demand price at %s", text)
			}
			return nil
		}})
	if err != nil {
		return nil, err
	}
	w.Start, err = time.Parse(time.RFC3339, answer)
	return typesWithPrices(offers, w.Start), err
}

// settings asks the user for the file that Terraform printed.
func (d *Dialogue) settings(w *Wanted) error {
	if w.Settings != "" {
		return nil
	}
	path, err := d.ask("", question{flag: "settings", suggestion: firstOf("installation.yaml", "/etc/tierml/installation.yaml"), check: file,
		text: "Settings of the installation (terraform output -raw settings >installation.yaml)"})
	if err != nil || path == "" {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the settings of the installation: %w", err)
	}
	w.Settings = string(text)
	return nil
}

var regionLine = pattern.Of(`(?m)^\s+"?region"?:\s*"?([a-z0-9-]+)"?\s*$`)

// regionOf finds the region in an installation's settings.
func regionOf(settings string) string {
	if m := regionLine().FindStringSubmatch(settings); m != nil {
		return m[1]
	}
	return ""
}

// shown is how many candidates are listed.
const shown = 12

func showCandidates(out io.Writer, all []Candidate, smallest bool) {
	by := "cheapest per vCPU"
	if smallest {
		by = "smallest"
	}
	fmt.Fprintf(out, "\nThe %s, of %d types:\n", by, len(all))
	table := tabwriter.NewWriter(out, 2, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  TYPE\tVCPU\tSPOT $/H\tON-DEMAND\tZONES")
	for _, c := range all[:min(len(all), shown)] {
		price := "-"
		if c.Price > 0 {
			price = strings.TrimPrefix(c.Price.Cents(), "$")
		}
		fmt.Fprintf(table, "  %s\t%d\t%s\t%s\t%s\n", c.Type.Name, c.Type.VCPU, price, strings.TrimPrefix(c.Type.OnDemand.Cents(), "$"), strings.Join(c.Zones, " "))
	}
	_ = table.Flush()
	fmt.Fprintln(out)
}

// The checks.

func file(path string) error {
	if location.IsURL(path) {
		_, err := location.Parse(path)
		return err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("there is no file %s", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file", path)
	}
	return nil
}

// readable refuses a file that cannot be data of any application, such as an archive. Objects in a store are read later.
func readable(path string) error {
	if location.IsURL(path) {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() == 0 {
		return fmt.Errorf("%s is empty", path)
	}
	text, err := input.Plain(f)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return text.Close()
}

func among(names []string) func(string) error {
	return func(text string) error {
		if !slices.Contains(names, text) {
			return fmt.Errorf("%q does not exist; there is %s", text, strings.Join(names[:min(len(names), 2*shown)], ", "))
		}
		return nil
	}
}

var jobName = pattern.Of(`^[A-Za-z0-9][A-Za-z0-9-]{0,62}$`)

func name(text string) error {
	if !jobName().MatchString(text) {
		return fmt.Errorf("%q cannot be a name; use letters, digits and dashes", text)
	}
	return nil
}

func whole(text string) error {
	if n, err := strconv.Atoi(text); err != nil || n < 1 {
		return fmt.Errorf("%q is not a whole number from 1 on", text)
	}
	return nil
}

func figure(text string) error {
	if v, err := strconv.ParseFloat(text, 64); err != nil || !(v > 0) {
		return fmt.Errorf("%q is not a number above 0", text)
	}
	return nil
}

// firstOf returns the first existing file.
func firstOf(paths ...string) string {
	for _, path := range paths {
		if file(path) == nil {
			return path
		}
	}
	return ""
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func splitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}
