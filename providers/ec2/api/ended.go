package api

import (
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tierml/tierml/internal/pattern"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/provisioner"
)

// EC2 does not clearly report when and by whom a machine was ended. This file derives it from three places: the code of
// the state reason, the date in the state transition's message, and the spot request's status.

// Status codes of spot requests
// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-request-status.html).
const (
	statusMarked     = "marked-for-termination"
	statusTerminated = "instance-terminated-" // and the reason: by-price, no-capacity, by-user ...
	statusByUser     = "instance-terminated-by-user"
	statusByUserOld  = "spot-instance-terminated-by-user"
)

func statusCode(r *types.SpotInstanceRequest) string {
	if r == nil || r.Status == nil {
		return ""
	}
	return aws.ToString(r.Status.Code)
}

func statusTime(r *types.SpotInstanceRequest) time.Time {
	if r == nil || r.Status == nil || r.Status.UpdateTime == nil {
		return time.Time{}
	}
	return wholeSeconds(*r.Status.UpdateTime)
}

func (c *Cloud) setEnd(m *machine, i *types.Instance, request *types.SpotInstanceRequest) {
	code, message := "", ""
	if i.StateReason != nil {
		code, message = aws.ToString(i.StateReason.Code), aws.ToString(i.StateReason.Message)
	}
	m.EndedBy = endedBy(code, statusCode(request))
	m.Reason = firstNonEmpty(message, code, statusCode(request), aws.ToString(i.StateTransitionReason), "no reason given")
	ended, told := endTime(aws.ToString(i.StateTransitionReason), request)
	if !told {
		ended = c.ends.at(m.ID, wholeSeconds(c.config.Clock.Now()))
	}
	if ended.Before(m.Launched) { // reclaimed before it was up
		ended = m.Launched
	}
	m.Ended = ended
}

// endedBy returns which side ended a machine: codes begin with "Server." where EC2 did it and with "Client." where the account did, or the
// machine shut itself down. Without a code, the spot request's status decides. Without any reason, the user is assumed to have ended it, so
// that no free hour is promised that the bill does not grant.
func endedBy(code, status string) market.EndedBy {
	switch {
	case strings.HasPrefix(code, "Server."):
		return market.ByProvider
	case strings.HasPrefix(code, "Client."), status == statusByUser, status == statusByUserOld:
		return market.ByUser
	case strings.HasPrefix(status, statusTerminated):
		return market.ByProvider
	}
	return market.ByUser
}

// transitionDate matches the date in "User initiated (2014-03-01 12:34:56 GMT)".
var transitionDate = pattern.Of(`\((\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}) (?:GMT|UTC)\)`)

// endTime parses when a machine ended, and reports whether EC2 said so.
func endTime(transition string, request *types.SpotInstanceRequest) (time.Time, bool) {
	if found := transitionDate().FindStringSubmatch(transition); found != nil {
		if t, err := time.Parse(time.DateTime, found[1]); err == nil {
			return t, true
		}
	}
	status := statusCode(request)
	if strings.HasPrefix(status, statusTerminated) || status == statusByUserOld {
		t := statusTime(request)
		return t, !t.IsZero()
	}
	return time.Time{}, false
}

func firstNonEmpty(texts ...string) string {
	for _, s := range texts {
		if s != "" {
			return s
		}
	}
	return ""
}

// observedEnds remembers when machines whose end EC2 does not date were first seen ended, so that the time does not change at every poll.
type observedEnds struct {
	mu    sync.Mutex
	first map[provisioner.InstanceID]time.Time
}

func (o *observedEnds) at(id provisioner.InstanceID, now time.Time) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if t, seen := o.first[id]; seen {
		return t
	}
	if o.first == nil {
		o.first = map[provisioner.InstanceID]time.Time{}
	}
	o.first[id] = now
	return now
}
