package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestConfirm(t *testing.T) {
	for _, c := range []struct {
		answers          string
		interactive, yes bool
		want             error
		asked            int
	}{
		{answers: "\n", interactive: true, asked: 1},
		{answers: "y\n", interactive: true, asked: 1},
		{answers: " YES \n", interactive: true, asked: 1},
		{answers: "n\n", interactive: true, want: errDeclined, asked: 1},
		{answers: "No\n", interactive: true, want: errDeclined, asked: 1},
		{answers: "what?\nn\n", interactive: true, want: errDeclined, asked: 2},
		{answers: "", interactive: true, want: errDeclined, asked: 1},
		{yes: true},
		{yes: true, interactive: true},
	} {
		var out bytes.Buffer
		err := Confirm(strings.NewReader(c.answers), &out, c.interactive, c.yes)
		if !errors.Is(err, c.want) {
			t.Errorf("%+v: error %v", c, err)
		}
		if asked := strings.Count(out.String(), "Proceed? [Y/n] "); asked != c.asked {
			t.Errorf("%+v: asked %d times", c, asked)
		}
	}
}

func TestConfirmWithoutTerminal(t *testing.T) {
	err := Confirm(strings.NewReader("y\n"), &bytes.Buffer{}, false, false)
	if err == nil || !strings.Contains(err.Error(), "add -y") || ExitCodeOf(err) != ExitUsage {
		t.Errorf("error %v with exit code %d", err, ExitCodeOf(err))
	}
}
