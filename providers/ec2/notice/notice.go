// Package notice reads what a machine on EC2 can learn about itself from the instance metadata service: that
// it will be reclaimed, its identity, and its user data. It runs inside the machine and needs no
// credentials. It does not use the EC2 API, whose client is very large; providers/ec2/api does.
//
// The service is found as the AWS SDK finds it: AWS_EC2_METADATA_SERVICE_ENDPOINT in the environment,
// else the link-local address of EC2. It uses only version 2 of the protocol (with session tokens).
package notice

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tierml/tierml/provisioner"
)

// Paths under /latest/meta-data
// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html).
const (
	pathInstanceAction  = "spot/instance-action"
	pathTerminationTime = "spot/termination-time"
	pathRebalance       = "events/recommendations/rebalance"
)

// DefaultInterval is how often the service is queried. EC2 recommends 5 s; a second costs little and
// gains time for the flush.
const DefaultInterval = time.Second

// Config of the metadata client.
type Config struct {
	// Endpoint replaces the address of the service; "" = as the SDK finds it.
	Endpoint string
	// Interval is how often Watch polls, wall-clock; 0 = DefaultInterval.
	Interval time.Duration
	// Report gets failures that Watch survives, such as a malformed answer; nil = dropped. A repeated
	// failure is reported once.
	Report func(error)
}

// Watch calls f for each notice that concerns this machine, until ctx is done, and then returns nil. It reports
// each notice once; an Eviction is reported again only if its deadline becomes earlier. No response from the
// service ends the watch. f is never called concurrently.
func Watch(ctx context.Context, c Config, f func(provisioner.Notice)) error {
	w := watcher{service: newService(c, watchAttempts), config: c, tell: f}
	defer w.service.close()
	interval := c.Interval
	if interval <= 0 {
		interval = DefaultInterval
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		w.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// watcher is the state of one Watch.
type watcher struct {
	service    *service
	config     Config
	tell       func(provisioner.Notice)
	self       provisioner.InstanceID // "" until known
	rebalanced bool                   // has been reported
	deadline   time.Time              // of the announced eviction; zero = none
	complaint  string                 // the last failure, so that it is reported once
}

// look queries everything once and reports what is new.
func (w *watcher) look(ctx context.Context) {
	var complaints []string
	check := func(err error) {
		if err != nil && ctx.Err() == nil {
			complaints = append(complaints, err.Error())
		}
	}
	deadline, evicted, err := w.eviction(ctx)
	check(err)
	rebalance := false
	if !w.rebalanced && !evicted {
		rebalance, err = w.rebalance(ctx)
		check(err)
	}
	if (evicted || rebalance) && w.self == "" {
		w.self, err = w.service.instanceID(ctx)
		check(err)
	}
	if w.self != "" {
		w.reportNew(evicted, deadline, rebalance)
	}
	w.complain(strings.Join(complaints, "; "))
}

func (w *watcher) reportNew(evicted bool, deadline time.Time, rebalance bool) {
	if evicted && (w.deadline.IsZero() || deadline.Before(w.deadline)) {
		w.deadline = deadline
		w.tell(provisioner.Notice{Kind: provisioner.Eviction, ID: w.self, Deadline: deadline})
	}
	if rebalance {
		w.rebalanced = true
		w.tell(provisioner.Notice{Kind: provisioner.Rebalance, ID: w.self})
	}
}

func (w *watcher) complain(text string) {
	if text != "" && text != w.complaint && w.config.Report != nil {
		w.config.Report(fmt.Errorf("asking the instance metadata service: %s", text))
	}
	w.complaint = text
}

// eviction returns whether and when this machine ends. spot/instance-action has the details; the
// older spot/termination-time is read if the former is missing or malformed.
func (w *watcher) eviction(ctx context.Context) (deadline time.Time, evicted bool, err error) {
	answer, found, err := w.service.get(ctx, pathInstanceAction)
	if err == nil && found {
		if deadline, err = parseInstanceAction(answer); err == nil {
			return deadline, true, nil
		}
	}
	answer, found, errOlder := w.service.get(ctx, pathTerminationTime)
	if errOlder == nil && found {
		if deadline, errOlder = parseTerminationTime(answer); errOlder == nil {
			return deadline, true, err
		}
	}
	if err == nil {
		err = errOlder
	}
	return time.Time{}, false, err
}

// rebalance reports whether the machine is at elevated risk.
func (w *watcher) rebalance(ctx context.Context) (bool, error) {
	answer, found, err := w.service.get(ctx, pathRebalance)
	if err != nil || !found {
		return false, err
	}
	if err := parseRebalance(answer); err != nil {
		return false, err
	}
	return true, nil
}

// parseInstanceAction reads {"action": "terminate", "time": "2017-09-18T08:22:00Z"}. Whatever the action
// (stop, hibernate or terminate), the machine is lost to the cluster.
func parseInstanceAction(answer string) (time.Time, error) {
	var action struct {
		Action string `json:"action"`
		Time   string `json:"time"`
	}
	if err := json.Unmarshal([]byte(answer), &action); err != nil {
		return time.Time{}, fmt.Errorf("%s: %q is not JSON: %w", pathInstanceAction, shorten(answer), err)
	}
	switch action.Action {
	case "terminate", "stop", "hibernate":
	default:
		return time.Time{}, fmt.Errorf("%s: unknown action %q", pathInstanceAction, shorten(action.Action))
	}
	return parseTime(pathInstanceAction, action.Time)
}

func parseTerminationTime(answer string) (time.Time, error) {
	return parseTime(pathTerminationTime, strings.TrimSpace(answer))
}

// parseRebalance reads {"noticeTime": "2020-10-27T08:22:00Z"}.
func parseRebalance(answer string) error {
	var event struct {
		NoticeTime string `json:"noticeTime"`
	}
	if err := json.Unmarshal([]byte(answer), &event); err != nil {
		return fmt.Errorf("%s: %q is not JSON: %w", pathRebalance, shorten(answer), err)
	}
	_, err := parseTime(pathRebalance, event.NoticeTime)
	return err
}

func parseTime(path, text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %q is no time such as 2017-09-18T08:22:00Z", path, shorten(text))
	}
	return t.UTC(), nil
}

// shorten keeps a message readable, whatever the answer.
func shorten(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
