package reach

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/pattern"
)

// tokenWithin is how long the command may take: it logs in to a machine.
const tokenWithin = 2 * time.Minute

// tokenText matches a token as made by access.Random, in the output of a session.
var tokenText = pattern.Of(`(?m)^\s*([A-Z2-7]{26})\s*$`)

// ReadToken makes the job server's machine print the token. The output is not kept, and in no error: it would contain the token.
func ReadToken(ctx context.Context, p Place) (access.Token, error) {
	doing := "getting the token of " + p.String()
	command := p.TokenCommand()
	if len(command) == 0 {
		return access.Token{}, fmt.Errorf("%s: no known command prints it; name its file with --token-file", doing)
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		return access.Token{}, fmt.Errorf("%s: %s is not here; %s", doing, command[0], p.programs(command)[command[0]])
	}
	c, err := start(command)
	if err != nil {
		return access.Token{}, fmt.Errorf("%s: %w", doing, err)
	}
	defer c.end()
	over := time.After(tokenWithin)
	for {
		ended := false
		select {
		case <-ctx.Done():
			return access.Token{}, ctx.Err()
		case <-over:
			ended = true
		case <-c.ended:
			ended = true
		case <-time.After(lookEvery):
		}
		if found := tokenText().FindStringSubmatch(c.said.String()); found != nil { // a session may stay open after it
			return access.Parse(found[1])
		}
		if ended {
			return access.Token{}, fmt.Errorf("%s: `%s` does not print one; do it by hand, and name the file with --token-file: the token is in the "+
				"file token of the job server's directory", doing, c.name())
		}
	}
}
