package call

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tierml/tierml/internal/access"
	"github.com/tierml/tierml/internal/journal"
	"github.com/tierml/tierml/internal/progress"
	"github.com/tierml/tierml/watch/dashboard"
	"github.com/tierml/tierml/watch/shared"
)

// Client talks to one job server.
type Client struct {
	base  *url.URL
	token access.Token
	http  *http.Client
	close func() // what the client owns; nil = nothing
	// patience is how long a job server may stay silent while it is followed.
	patience time.Duration
}

// New creates a client for the job server at an address. Authority is a file with the certificates to trust instead of the system's; empty
// = the system's.
func New(address string, token access.Token, authority string) (*Client, error) {
	base, err := access.CheckURL(address)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if authority != "" {
		text, err := os.ReadFile(authority)
		if err != nil {
			return nil, fmt.Errorf("reading the job server's authority: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate in PEM", authority)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the token is only for this job server
	}}
	return &Client{base: base, token: token, http: client, patience: patience}, nil
}

// Address returns the job server's.
func (c *Client) Address() string { return strings.TrimSuffix(c.base.String(), "/") }

// Through lets dial make the connections; nil: as usual.
func (c *Client) Through(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	if dial != nil {
		c.http.Transport.(*http.Transport).DialContext = dial
	}
}

// Own makes Close end something else as well, such as the tunnel to the job server. A tunnel breaks and is reopened as a laptop sleeps and
// changes networks, so the client becomes more patient.
func (c *Client) Own(end func()) { c.close, c.patience = end, tunnelPatience }

// Close closes idle connections, and what the client owns.
func (c *Client) Close() {
	c.http.CloseIdleConnections()
	if c.close != nil {
		c.close()
	}
}

// Refused is an unsuccessful response of the job server.
type Refused struct {
	Status int
	text   string
}

func (r Refused) Error() string { return r.text }

// Temporary means that the same call may succeed later: there was no response, or not one of the job server's.
func Temporary(err error) bool {
	refused, ok := errors.AsType[Refused](err)
	return err != nil && (!ok || refused.Status >= 500)
}

// ask makes a call whose response the caller reads and closes.
func (c *Client) ask(ctx context.Context, method string, body io.Reader, query url.Values, path ...string) (*http.Response, error) {
	u := c.base.JoinPath(append([]string{"api", "v1"}, escaped(path)...)...)
	u.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, fmt.Errorf("asking the job server: %w", err)
	}
	request.Header.Set("Authorization", c.token.Bearer())
	response, err := c.http.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("the job server at %s does not answer: %w; is it running, and the tunnel to it open?", c.Address(), without(err))
	}
	if response.StatusCode/100 == 2 {
		return response, nil
	}
	defer response.Body.Close()
	return nil, c.refusal(response)
}

func escaped(path []string) []string {
	out := make([]string, len(path))
	for i, p := range path {
		out[i] = url.PathEscape(p)
	}
	return out
}

// without removes the address, which is already in the message.
func without(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

func (c *Client) refusal(response *http.Response) error {
	var r Refusal
	text, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10)) // a truncated response still has its status
	_ = json.Unmarshal(text, &r)
	switch {
	case response.StatusCode == http.StatusUnauthorized:
		r.Error = fmt.Sprintf("the job server at %s refuses this token: name the file of its own, `token` in its directory, with --token-file", c.Address())
	case r.Error == "":
		r.Error = fmt.Sprintf("what answers at %s is not a job server: %s", c.Address(), response.Status)
	}
	return Refused{response.StatusCode, r.Error}
}

// exchange makes a call with JSON in both directions.
func (c *Client) exchange(ctx context.Context, method string, in, out any, path ...string) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("asking the job server: %w", err)
		}
		body = bytes.NewReader(text)
	}
	response, err := c.ask(ctx, method, body, nil, path...)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(response.Body).Decode(out); err != nil {
		return fmt.Errorf("the job server's answer: %w", err)
	}
	return nil
}

// Jobs lists all jobs.
func (c *Client) Jobs(ctx context.Context) (jobs []Job, err error) {
	return jobs, c.exchange(ctx, http.MethodGet, nil, &jobs, "jobs")
}

// Groups returns what the jobs of each group have cost.
func (c *Client) Groups(ctx context.Context) (account Account, err error) {
	return account, c.exchange(ctx, http.MethodGet, nil, &account, "groups")
}

// Hosts returns the shared hosts with the jobs on them.
func (c *Client) Hosts(ctx context.Context) (views []shared.View, err error) {
	return views, c.exchange(ctx, http.MethodGet, nil, &views, "hosts")
}

// Job returns one job: ID may be a job's name, which means its newest run, or "latest".
func (c *Client) Job(ctx context.Context, id string) (job Job, err error) {
	return job, c.exchange(ctx, http.MethodGet, nil, &job, "jobs", id)
}

// Why returns what the job server's scheduler decided about a job.
func (c *Client) Why(ctx context.Context, id string) (why Why, err error) {
	return why, c.exchange(ctx, http.MethodGet, nil, &why, "jobs", id, "why")
}

// Sweep returns the trials of a sweep: the one with that name, the one of a trial or job with that name, or the latest.
func (c *Client) Sweep(ctx context.Context, id string) (sweep dashboard.Sweep, err error) {
	return sweep, c.exchange(ctx, http.MethodGet, nil, &sweep, "sweeps", id)
}

// Submit submits a job.
func (c *Client) Submit(ctx context.Context, s Submission) (job Job, err error) {
	return job, c.exchange(ctx, http.MethodPost, s, &job, "jobs")
}

// Plan prints what the job server would buy for a job.
func (c *Client) Plan(ctx context.Context, s Submission, out io.Writer) error {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("asking the job server: %w", err)
	}
	response, err := c.ask(ctx, http.MethodPost, bytes.NewReader(text), nil, "plan")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(out, response.Body); err != nil {
		return fmt.Errorf("reading the plan: %w", err)
	}
	return nil
}

// Outlook returns when the job server would start a job.
func (c *Client) Outlook(ctx context.Context, s Submission) (o Outlook, err error) {
	text, err := json.Marshal(s)
	if err != nil {
		return o, fmt.Errorf("asking the job server: %w", err)
	}
	response, err := c.ask(ctx, http.MethodPost, bytes.NewReader(text), url.Values{"outlook": {"only"}}, "plan")
	if err != nil {
		return o, err
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&o); err != nil {
		return o, fmt.Errorf("the job server's answer: %w", err)
	}
	return o, nil
}

// Stop requests a job's end, which is reached when its state says so.
func (c *Client) Stop(ctx context.Context, id string, s Stop) (job Job, err error) {
	return job, c.exchange(ctx, http.MethodPost, s, &job, "jobs", id, "stop")
}

// Resume resumes a stopped or failed job.
func (c *Client) Resume(ctx context.Context, id string) (job Job, err error) {
	return job, c.exchange(ctx, http.MethodPost, nil, &job, "jobs", id, "resume")
}

// Delete deletes the files of a job that has ended.
func (c *Client) Delete(ctx context.Context, id string) error {
	response, err := c.ask(ctx, http.MethodDelete, nil, nil, "jobs", id)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// Upload sends those files that the job server lacks into one folder, and returns the name by which a job file refers to the first. Sent is
// called before each file that is sent.
func (c *Client) Upload(ctx context.Context, paths []string, sent func(name string, bytes int64)) (name string, err error) {
	files := make([]input, len(paths))
	for i, path := range paths {
		if files[i], err = measure(ctx, path); err != nil {
			return "", err
		}
	}
	folder, listing := files[0].sum, ""
	if len(files) > 1 {
		folder, listing = together(files)
	}
	name = Uploaded + folder + "/" + files[0].name
	if there, err := c.has(ctx, folder, files[0].name); there || err != nil {
		return name, err
	}
	for _, f := range files {
		if there, err := c.has(ctx, f.sum, f.name); err != nil {
			return "", err
		} else if there {
			continue
		}
		sent(f.name, f.size)
		if err := c.send(ctx, f); err != nil {
			return "", err
		}
	}
	if listing == "" {
		return name, nil
	}
	response, err := c.ask(ctx, http.MethodPut, strings.NewReader(listing), nil, "inputs", folder)
	if err != nil {
		return "", fmt.Errorf("uploading %s: %w", files[0].name, err)
	}
	return name, response.Body.Close()
}

// input is a file to upload.
type input struct {
	path, name, sum string
	size            int64
}

func measure(ctx context.Context, path string) (input, error) {
	file, err := os.Open(path)
	if err != nil {
		return input{}, fmt.Errorf("reading what is to be uploaded: %w", err)
	}
	defer file.Close()
	bar := progress.Start(ctx, "Checking "+filepath.Base(path), sizeOf(file), progress.Bytes)
	defer bar.Done()
	sum := sha256.New()
	size, err := io.Copy(sum, bar.Reader(file))
	if err != nil {
		return input{}, fmt.Errorf("reading what is to be uploaded: %w", err)
	}
	return input{path, plainName(filepath.Base(path)), hex.EncodeToString(sum.Sum(nil)), size}, nil
}

func sizeOf(file *os.File) int64 {
	info, err := file.Stat()
	if err != nil {
		return 0 // not known
	}
	return info.Size()
}

// plainName keeps the characters that every file system and address allows; readers depend on the extension.
func plainName(name string) string {
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._+-", r) {
			return r
		}
		return '-'
	}, name)
	return strings.TrimLeft(plain, "._+-")
}

// together returns the listing of files in one folder, and the folder's name: the listing's SHA-256.
func together(files []input) (folder, listing string) {
	var text strings.Builder
	for _, f := range files {
		fmt.Fprintf(&text, "%s %s\n", f.sum, f.name)
	}
	sum := sha256.Sum256([]byte(text.String()))
	return hex.EncodeToString(sum[:]), text.String()
}

func (c *Client) has(ctx context.Context, folder, name string) (bool, error) {
	response, err := c.ask(ctx, http.MethodHead, nil, nil, "inputs", folder, name)
	if refused, ok := errors.AsType[Refused](err); ok && refused.Status == http.StatusNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, response.Body.Close()
}

func (c *Client) send(ctx context.Context, f input) error {
	file, err := os.Open(f.path)
	if err != nil {
		return fmt.Errorf("reading what is to be uploaded: %w", err)
	}
	defer file.Close()
	bar := progress.Start(ctx, "Uploading "+f.name, f.size, progress.Bytes)
	defer bar.Done()
	response, err := c.ask(ctx, http.MethodPut, io.NopCloser(bar.Reader(file)), nil, "inputs", f.sum, f.name)
	if err != nil {
		return fmt.Errorf("uploading %s: %w", f.name, err)
	}
	return response.Body.Close()
}

// File downloads a file of a job's run, one of Files.
func (c *Client) File(ctx context.Context, id, name string, out io.Writer) error {
	response, err := c.ask(ctx, http.MethodGet, nil, nil, "jobs", id, "files", name)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	bar := progress.Start(ctx, "Fetching "+name, response.ContentLength, progress.Bytes)
	defer bar.Done()
	if _, err := io.Copy(out, bar.Reader(response.Body)); err != nil {
		return fmt.Errorf("fetching %s: %w", name, err)
	}
	return nil
}

// State passes on the packed state of a program, as one of its manifests lists it.
func (c *Client) State(ctx context.Context, id, program, manifest, digest string, take func(io.Reader) error) error {
	response, err := c.ask(ctx, http.MethodGet, nil, url.Values{"manifest": {manifest}, "digest": {digest}}, "jobs", id, "state", program)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return take(response.Body)
}

// Logs copies what a job's run and its machines have logged and, with follow, what they log until it ends.
func (c *Client) Logs(ctx context.Context, id string, names []string, follow bool, out io.Writer) error {
	response, err := c.ask(ctx, http.MethodGet, nil, following(follow, url.Values{"name": names}), "jobs", id, "logs")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(out, response.Body)
	return broken(ctx, err)
}

func following(follow bool, query url.Values) url.Values {
	if follow {
		query.Set("follow", "true")
	}
	return query
}

// broken is an error of a connection that was cut while it was being read.
func broken(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("the connection to the job server broke: %w", err)
	}
	return nil
}

// Events passes on the entries of a job's journal and, with follow, new ones until the job ends. Caught is called each time nothing more is
// available for now. Skip is how many lines the caller already has; the number of lines read is returned, so that the caller can continue
// after a broken connection.
func (c *Client) Events(ctx context.Context, id string, follow bool, skip int, take func(journal.Entry), caught func()) (lines int, err error) {
	query := following(follow, url.Values{"skip": {fmt.Sprint(skip)}})
	response, err := c.ask(ctx, http.MethodGet, nil, query, "jobs", id, "events")
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	in := bufio.NewScanner(response.Body)
	in.Buffer(make([]byte, 64<<10), journal.MaxLine)
	for in.Scan() {
		if len(in.Bytes()) == 0 { // an empty line: nothing more for now
			caught()
			continue
		}
		var e journal.Entry
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			return lines, fmt.Errorf("the job server's answer: %w", err)
		}
		lines++
		take(e)
	}
	return lines, broken(ctx, in.Err())
}

// FollowEvents is Events that continues after a broken connection, as a tunnel may break and a job server restart. It gives up after some
// time without an answer.
func (c *Client) FollowEvents(ctx context.Context, id string, take func(journal.Entry), caught func()) error {
	had, last := 0, time.Now()
	for {
		answered := false
		lines, err := c.Events(ctx, id, true, had, take, func() { answered = true; caught() })
		had += lines
		if lines > 0 || answered { // a job may be silent for longer than our patience
			last = time.Now()
		}
		if err == nil || !Temporary(err) || ctx.Err() != nil || time.Since(last) > c.patience {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(again):
		}
	}
}

const (
	patience       = time.Minute
	tunnelPatience = 15 * time.Minute
	again          = time.Second
)

// Patient retries f as long as there is no response, within reason.
func (c *Client) Patient(ctx context.Context, f func() error) error {
	for last := time.Now(); ; {
		err := f()
		if !Temporary(err) || ctx.Err() != nil || time.Since(last) > c.patience {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(again):
		}
	}
}

// Scale changes the numbers of machines of a job, and calls told with each line of the response.
func (c *Client) Scale(ctx context.Context, id string, s Scale, told func(Standing)) error {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("asking the job server: %w", err)
	}
	response, err := c.ask(ctx, http.MethodPost, bytes.NewReader(text), nil, "jobs", id, "scale")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	for answers := json.NewDecoder(response.Body); ; {
		var standing Standing
		err := answers.Decode(&standing)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return broken(ctx, err)
		case standing.Error != "":
			return errors.New(standing.Error)
		}
		told(standing)
	}
}
