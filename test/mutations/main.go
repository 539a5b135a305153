// Mutations shows that tests of docs/security.md detect a missing rule: it removes each rule of the table from a copy of its file and runs
// the tests named in test/attacks.md, which must fail. It does not know which lines have no rule here.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
)

// rule is a line of code that denies access. The test is in the package of the same line.
type rule struct {
	what, file string
	text, gone string // the rule's text, which occurs once, and its replacement
	pkg, test  string
}

func main() {
	only := flag.String("only", "", "regular expression of tests or rules to try; default: all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := tryAll(ctx, regexp.MustCompile(*only)); err != nil {
		fmt.Fprintln(os.Stderr, "mutations:", err)
		os.Exit(1)
	}
}

func tryAll(ctx context.Context, only *regexp.Regexp) error {
	dir, err := os.MkdirTemp("", "mutations-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	failed, tried := 0, 0
	for _, r := range rules {
		if !only.MatchString(r.what + " " + r.test) {
			continue
		}
		tried++
		verdict, err := r.try(ctx, dir)
		if err != nil {
			return fmt.Errorf("%s: %w", r.what, err)
		}
		if verdict != "" {
			failed++
		} else {
			verdict = "noticed"
		}
		fmt.Printf("%-60s %-40s %s\n", r.what, r.test, verdict)
	}
	fmt.Printf("%d rules taken out, %d not noticed\n", tried, failed)
	if failed > 0 {
		return fmt.Errorf("%d rules are not tested", failed)
	}
	return nil
}

// try returns why the test did not detect it; empty = it did.
func (r rule) try(ctx context.Context, dir string) (string, error) {
	text, err := os.ReadFile(r.file)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), r.text); n != 1 {
		return "", fmt.Errorf("%s has %q %d times, not once", r.file, r.text, n)
	}
	mutant := filepath.Join(dir, "mutant.go")
	from, err := filepath.Abs(r.file)
	if err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {from: mutant}})
	if err != nil {
		return "", err
	}
	settings := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(mutant, []byte(strings.Replace(string(text), r.text, r.gone, 1)), 0o600); err != nil {
		return "", err
	}
	if err := os.WriteFile(settings, overlay, 0o600); err != nil {
		return "", err
	}
	test := exec.CommandContext(ctx, "go", "test", "-vet=off", "-ldflags=-w", "-count=1", "-timeout=5m", "-run", "^"+r.test+"$", "./"+r.pkg)
	test.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+settings) // also for a program that the test builds
	out, err := test.CombinedOutput()
	switch said := string(out); {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err == nil:
		return "NOT NOTICED: the test passes without it", nil
	case !strings.Contains(said, "--- FAIL: "+r.test) && !strings.Contains(said, "panic: "):
		return fmt.Sprintf("NO VERDICT: %.600s", said), nil
	}
	return "", nil
}
