package fakecloud

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tierml/tierml/internal/sameuser"
)

// A web page cannot make a browser on this host launch machines: EC2's requests are forms, which pages may send anywhere.
func TestWebPagesLaunchNothing(t *testing.T) {
	c := run(t, nil)
	ids := c.launch(1)
	c.awaitState(ids[0], "running")
	form := url.Values{"Action": {"RunInstances"}, "Version": {"2016-11-15"}, "InstanceType": {"c3.xlarge"}, "ImageId": {"ami-1"}, "MinCount": {"1"},
		"MaxCount": {"1"}, "Placement.AvailabilityZone": {"us-west-1a"}, "UserData": {"e30="}}.Encode()
	metadata := c.metadataOf(ids[0])
	for what, change := range map[string]func(*http.Request){
		"a form of a page":    func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
		"a page without name": func(r *http.Request) { r.Header.Set("Origin", "null") },
		"an image of a page":  func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"a neighbour's page":  func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"a name led here":     func(r *http.Request) { r.Host = "evil.example" },
		"one with a port":     func(r *http.Request) { r.Host = "evil.example:80" },
		"one that looks like": func(r *http.Request) { r.Host = "127.0.0.1.evil.example" },
	} {
		for _, request := range []struct{ method, address, body string }{
			{"POST", c.Endpoint() + "/", form}, {"GET", c.Endpoint() + "/?" + form, ""}, {"POST", c.Endpoint() + "/_control/do", `{"step": "kill all"}`},
			{"GET", c.Endpoint() + "/_control/instances", ""}, {"PUT", metadata + "/latest/api/token", ""},
		} {
			r, err := http.NewRequestWithContext(t.Context(), request.method, request.address, strings.NewReader(request.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", map[bool]string{true: "application/json", false: "application/x-www-form-urlencoded"}[strings.HasPrefix(request.body, "{")])
			r.Header.Set("X-aws-ec2-metadata-token-ttl-seconds", "60")
			change(r)
			response, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != http.StatusForbidden {
				t.Errorf("%s, %s %s: %s", what, request.method, request.address, response.Status)
			}
		}
	}
	if there := c.Instances(); len(there) != 1 || there[0].State != "running" {
		t.Errorf("afterwards: %+v", there)
	}
}

// Garbage, headers without an end and oversized bodies are refused, by the API and the metadata service; others are served.
func TestFakeCloudRefusesGarbage(t *testing.T) {
	c := run(t, nil)
	ids := c.launch(1)
	c.awaitState(ids[0], "running")
	for _, at := range []string{c.Endpoint(), c.metadataOf(ids[0])} {
		host, _, _ := strings.Cut(strings.TrimPrefix(at, "http://"), "/")
		for what, say := range map[string]string{
			"garbage": strings.Repeat("\xa5", 1<<16) + "\r\n\r\n", "TLS": "\x16\x03\x01\xff\xff" + strings.Repeat("\x00", 1<<10) + "\r\n\r\n",
			"a long header":  "GET / HTTP/1.1\r\nHost: " + host + "\r\nX: " + strings.Repeat("x", 4*longestHeader) + "\r\n\r\n",
			"a long request": "POST / HTTP/1.1\r\nHost: " + host + "\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 999999999\r\n\r\nAction=" + strings.Repeat("x", 16<<20),
		} {
			conn, err := net.Dial("tcp", host)
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			go func() { _, _ = io.WriteString(conn, say) }() // it may be cut off, and is at Close
			answer := make([]byte, 12)
			if n, _ := io.ReadFull(conn, answer); n == len(answer) && !strings.HasPrefix(string(answer), "HTTP/1.1 4") {
				t.Errorf("%s is answered by %q", what, answer)
			}
			_ = conn.Close()
		}
	}
	c.launch(1)
}

// metadataOf returns the address of a machine's metadata, once it is served.
func (c *testCloud) metadataOf(id string) string {
	c.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if at := c.instance(id).Metadata; at != "" {
			return at
		}
	}
	c.t.Fatalf("%s has no metadata", id)
	return ""
}

// A machine's own processes can read its metadata. Their children in a session of their own, as programs are, cannot, even if they know the
// address.
func TestProgramsReachNoMetadata(t *testing.T) {
	if !sameuser.Supported {
		t.Skip("this system does not tell whose a connection is: run it on Linux")
	}
	for _, tool := range []string{"bash", "setsid"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed: apt-get install bash util-linux", tool)
		}
	}
	const script = `at=${AWS_EC2_METADATA_SERVICE_ENDPOINT#http://}; export at
probe='trap "" PIPE; exec 3<>/dev/tcp/${at%:*}/${at#*:} && printf "GET /latest/meta-data/instance-id HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" "$at" >&3 2>/dev/null; read -r line <&3 || line=nothing; echo "$who: $line"'
export probe; who=machine bash -c "$probe"; who=program setsid --wait bash -c "$probe"; who=daemon setsid --wait bash -c 'setsid --wait bash -c "$probe"'; echo over; exec sleep 1000`
	c := run(t, func(c *Config) { c.Command = []string{"bash", "-c", script} })
	id := c.launch(1)[0]
	await(t, "the probes are over", func() bool { return strings.Contains(c.log(id), "over\n") })
	log := c.log(id)
	if !strings.Contains(log, "machine: HTTP/1.1 401") || !strings.Contains(log, "program: nothing") || !strings.Contains(log, "daemon: nothing") {
		t.Errorf("%s", log)
	}
}
