package alert

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Hook is where alerts go. Only its host is printed: the rest of an address may be a secret.
type Hook struct {
	address *url.URL
	secret  []byte // signing key; empty = unsigned
}

// String returns the host.
func (h Hook) String() string { return h.address.Host }

// NewHook returns a hook for an address, or for the file that holds it, with the file of the secret, if any.
func NewHook(address, addressFile, secretFile string) (*Hook, error) {
	if addressFile != "" {
		text, err := readSecret(addressFile)
		if err != nil {
			return nil, err
		}
		address = text
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("alerts: the address is not one such as https://example.com/hook") // which may be a secret
	}
	h := &Hook{address: u}
	if secretFile != "" {
		text, err := readSecret(secretFile)
		if err != nil {
			return nil, err
		}
		h.secret = []byte(text)
	}
	return h, nil
}

func readSecret(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("alerts: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, 16<<10))
	if err != nil {
		return "", fmt.Errorf("alerts: reading %s: %w", path, err)
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" {
		return "", fmt.Errorf("alerts: %s is empty", path)
	}
	return secret, nil
}

// SignatureHeader holds "t=SECONDS,v1=HEX": the HMAC-SHA-256, with the secret, of the seconds, a dot, and the body.
const SignatureHeader = "Tierml-Signature"

// Sign returns the signature of a body.
func Sign(secret, body []byte, at time.Time) string {
	seconds := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(seconds + "."))
	mac.Write(body)
	return "t=" + seconds + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// Limits of delivery: tries, time per try, and waits, which double.
const (
	tries   = 5
	perTry  = 10 * time.Second
	waiting = 64 // alerts; more are dropped
	ending  = 15 * time.Second
)

// Notifier delivers alerts, one after another. Notify never blocks. A nil Notifier delivers nothing.
type Notifier struct {
	hook   *Hook
	log    *slog.Logger
	client *http.Client
	first  time.Duration // before the second try
	queue  chan Alert
	done   sync.WaitGroup
	stop   context.CancelFunc

	mu     sync.Mutex
	closed bool
}

// NewNotifier starts delivering; Close ends it.
func NewNotifier(hook *Hook, log *slog.Logger) *Notifier {
	return newNotifier(hook, log, time.Second, transport(notMetadata))
}

// NewPublicNotifier is NewNotifier for a hook chosen by others: it dials public addresses only, whatever a name resolves to.
func NewPublicNotifier(hook *Hook, log *slog.Logger) *Notifier {
	t := transport(onlyPublic)
	t.Proxy = nil // a proxy would dial on our behalf, unchecked
	return newNotifier(hook, log, time.Second, t)
}

func newNotifier(hook *Hook, log *slog.Logger, first time.Duration, over *http.Transport) *Notifier {
	ctx, stop := context.WithCancel(context.Background())
	b := &Notifier{hook: hook, log: log, first: first, queue: make(chan Alert, waiting), stop: stop, client: &http.Client{Transport: over,
		Timeout:       perTry,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // it may lead to this host
	}}
	b.done.Go(func() {
		for a := range b.queue {
			b.deliver(ctx, a)
		}
	})
	return b
}

// Notify queues an alert; if too many wait it is dropped.
func (b *Notifier) Notify(a Alert) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	select {
	case b.queue <- a:
	default:
		b.log.Warn("an alert is dropped: too many are waiting", "kind", string(a.Kind), "run", a.Run)
	}
}

// Close sends the waiting alerts, within a short time limit.
func (b *Notifier) Close() {
	if b == nil {
		return
	}
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.queue)
	}
	b.mu.Unlock()
	patience := time.AfterFunc(ending, b.stop)
	defer patience.Stop()
	b.done.Wait()
	b.stop()
	b.client.CloseIdleConnections()
}

func (b *Notifier) deliver(ctx context.Context, a Alert) {
	a.Text = a.sentence()
	body, err := json.Marshal(a)
	if err != nil {
		b.log.Error("an alert cannot be encoded", "kind", string(a.Kind), "error", err)
		return
	}
	wait := b.first
	for try := 1; ; try++ {
		again, err := b.post(ctx, body)
		if err == nil {
			return
		}
		if !again || try == tries || ctx.Err() != nil {
			b.log.Warn("an alert could not be delivered", "kind", string(a.Kind), "run", a.Run, "to", b.hook.String(), "tries", try, "error", err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait *= 2
	}
}

// post reports whether another try may help.
func (b *Notifier) post(ctx context.Context, body []byte) (again bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, b.hook.address.String(), bytes.NewReader(body))
	if err != nil {
		return false, errors.New("the address cannot be posted to")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "tierml")
	if len(b.hook.secret) > 0 {
		request.Header.Set(SignatureHeader, Sign(b.hook.secret, body, time.Now()))
	}
	response, err := b.client.Do(request)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // without the address
		}
		return true, err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // so that the connection can be reused
	switch code := response.StatusCode; {
	case code/100 == 2:
		return false, nil
	case code == http.StatusRequestTimeout, code == http.StatusTooManyRequests, code >= 500:
		return true, errors.New(response.Status)
	}
	return false, errors.New(response.Status)
}
