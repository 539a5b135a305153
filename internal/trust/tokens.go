package trust

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// JoinedFile lists which machine joined with which token, so that a token counts only once however often the controller is restarted.
const JoinedFile = "joined.jsonl"

// TokenLife is how long after its creation a token may be used for the first time: a machine that has not come up by then is given up.
const TokenLife = time.Hour

// Reasons to refuse a token.
var (
	errForeign  = errors.New("this run did not issue that token")
	errTooLate  = errors.New("that token has expired")
	errReplayed = errors.New("that token was used before, by all the machines that it is for")
	errTaken    = errors.New("a machine of that name has joined before, with another key")
)

// Tokens issues one-time tokens and accepts them. The machines of one launch have the same user data, so a token counts once for each. It
// is bound to the first keys that come with it: the same key may use it again, since an answer can be lost and an agent restarted. A copy
// of the token is useless without the key.
type Tokens struct {
	secret []byte
	now    func() time.Time

	mu        sync.Mutex
	file      *os.File
	uses      map[string]int // per token, by its hash
	byMachine map[string]joined
}

// joined is a line of JoinedFile.
type joined struct {
	Token   string `json:"token"` // its hash: the file reveals no token
	Machine string `json:"machine"`
	Key     string `json:"key"` // the public key's hash
}

// OpenTokens continues with the tokens of the run in a directory. Close must be called.
func OpenTokens(directory, secret string, now func() time.Time) (*Tokens, error) {
	if secret == "" {
		return nil, errors.New("opening the run's tokens: the secret is empty")
	}
	t := &Tokens{secret: []byte(secret), now: now, uses: map[string]int{}, byMachine: map[string]joined{}}
	var err error
	if t.file, err = os.OpenFile(filepath.Join(directory, JoinedFile), os.O_CREATE|os.O_RDWR, 0o600); err == nil {
		if err = t.recall(); err != nil {
			err = errors.Join(err, t.file.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("opening the list of joined machines: %w", err)
	}
	return t, nil
}

// recall reads the file. A line cut short by a crash was not answered: it is removed.
func (t *Tokens) recall() error {
	var whole int64
	lines := bufio.NewReader(t.file)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break // the end, or half a line
		}
		var j joined
		if err := json.Unmarshal(line, &j); err != nil {
			return fmt.Errorf("%s, after %d bytes: %w", JoinedFile, whole, err)
		}
		t.uses[j.Token]++
		t.byMachine[j.Machine] = j
		whole += int64(len(line))
	}
	if err := t.file.Truncate(whole); err != nil {
		return err
	}
	_, err := t.file.Seek(whole, 0)
	return err
}

// Close closes the list.
func (t *Tokens) Close() error { return t.file.Close() }

// Issue returns the token for the machines of a launch that was decided at a given time. It is the same every time, whichever controller of
// the run creates it: the retry of a launch must have the same user data. The run's secret makes it hard to guess.
func (t *Tokens) Issue(launch string, decided time.Time, machines int) string {
	body := strings.Join([]string{t.hash("launch " + launch)[:32], strconv.FormatInt(decided.Add(TokenLife).Unix(), 36), strconv.Itoa(machines)}, ".")
	return body + "." + t.seal(body)
}

func (t *Tokens) seal(body string) string { return t.hash("join " + body) }

func (t *Tokens) hash(text string) string {
	mac := hmac.New(sha256.New, t.secret)
	_, _ = mac.Write([]byte(text)) // never fails
	return hex.EncodeToString(mac.Sum(nil))
}

// terms parses until when a token may first be used, and by how many machines.
func (t *Tokens) terms(token string) (until int64, machines int, err error) {
	cut := strings.LastIndexByte(token, '.')
	if cut < 0 || !hmac.Equal([]byte(token[cut+1:]), []byte(t.seal(token[:cut]))) {
		return 0, 0, errForeign
	}
	fields := strings.Split(token[:cut], ".")
	if len(fields) != 3 {
		return 0, 0, errForeign
	}
	until, err = strconv.ParseInt(fields[1], 36, 64)
	if err == nil {
		machines, err = strconv.Atoi(fields[2])
	}
	if err != nil {
		return 0, 0, errForeign
	}
	return until, machines, nil
}

// spend accepts a token from a machine with a public key, as DER.
func (t *Tokens) spend(token, machine string, key []byte) error {
	until, machines, err := t.terms(token)
	if err != nil {
		return err
	}
	j := joined{Token: digest([]byte(token)), Machine: machine, Key: digest(key)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if before, there := t.byMachine[machine]; there {
		if before != j {
			return errTaken
		}
		return nil
	}
	if t.uses[j.Token] >= machines {
		return errReplayed
	}
	if t.now().Add(-skew).Unix() > until { // it may come from a previous controller with another clock
		return errTooLate
	}
	if err := t.keep(j); err != nil {
		return err
	}
	t.uses[j.Token]++
	t.byMachine[machine] = j
	return nil
}

// keep writes a line down. This is durable before a certificate is issued for it.
func (t *Tokens) keep(j joined) error {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(j); err != nil {
		return fmt.Errorf("writing the list of joined machines: %w", err)
	}
	if _, err := t.file.Write(b.Bytes()); err != nil {
		return fmt.Errorf("writing the list of joined machines: %w", err)
	}
	if err := t.file.Sync(); err != nil {
		return fmt.Errorf("writing the list of joined machines: %w", err)
	}
	return nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
