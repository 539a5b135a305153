package program

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
)

// together reports whether several ranks are saved in one round, and resume from one.
func (s *Start) together() bool { return s.Ranks > 1 && !s.Elastic }

// gang returns the number of ranks that save together; 0 = this one saves alone.
func (s *Start) gang() int {
	if s.together() {
		return s.Ranks
	}
	return 0
}

// keyOf names the state of another rank.
func (s *Start) keyOf(rank int) string {
	return strings.TrimSuffix(s.Key, strconv.Itoa(s.Rank)) + strconv.Itoa(rank)
}

func (a *attempt) setPeers(peers []string) {
	a.mu.Lock()
	a.peers = peers
	a.mu.Unlock()
	a.ring()
}

// writePeers writes the other ranks to the program's file, if they have changed.
func (a *attempt) writePeers() {
	a.mu.Lock()
	peers := a.peers
	a.mu.Unlock()
	if !a.start.Elastic || a.listed != nil && slices.Equal(peers, a.listed) {
		return
	}
	var text strings.Builder
	for _, p := range peers {
		text.WriteString(p + "\n")
	}
	if err := replace(a.path("peers"), []byte(text.String())); err != nil {
		a.m.config.Log.Warn("the file of peers", "err", err)
		return // retried later
	}
	a.listed = append([]string{}, peers...)
}

// meeting returns the variables by which the ranks of a gang find each other. In an elastic one the world's size is not fixed, and the
// master is a coordinator, if the job has one.
func (s *Start) meeting() map[string]string {
	env := map[string]string{"NODE_RANK": strconv.Itoa(s.Rank), "NNODES": strconv.Itoa(s.Ranks)}
	host, port, err := net.SplitHostPort(s.Master)
	if !s.Elastic {
		maps.Copy(env, map[string]string{"RANK": strconv.Itoa(s.Rank), "WORLD_SIZE": strconv.Itoa(s.Ranks), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"})
		if err != nil {
			host, port = "127.0.0.1", "29500"
		}
	}
	if port != "" {
		env["MASTER_ADDR"], env["MASTER_PORT"] = host, port
	}
	return env
}
