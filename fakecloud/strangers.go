package fakecloud

import (
	"net"
	"net/http"
	"net/netip"
	"time"
)

const (
	headerTime    = 10 * time.Second
	bodyTime      = 30 * time.Second // for a request's body, which is small
	idleTime      = 2 * time.Minute
	longestHeader = 64 << 10
)

// newServer returns a server for programs of this host. Anything here can be requested without credentials, and a launch starts a process:
// so requests that a foreign web page makes through a browser of this host are refused.
func newServer(handler http.Handler) *http.Server {
	return &http.Server{Handler: ownPrograms(handler), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: longestHeader}
}

// ownPrograms refuses browsers: requests that carry an origin or are marked as cross-site, and requests for
// another host's name (DNS rebinding). EC2's protocol is that of web forms, so without this any page could launch.
func ownPrograms(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site := r.Header.Get("Sec-Fetch-Site")
		if r.Header.Get("Origin") != "" || site != "" && site != "none" && site != "same-origin" || !ofThisHost(r.Host) {
			w.Header().Set("Connection", "close")
			http.Error(w, "this cloud is for programs of its own host", http.StatusForbidden)
			return
		}
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // none in tests without a connection
		}
		next.ServeHTTP(w, r)
	})
}

func ofThisHost(hostPort string) bool {
	host := hostPort
	if name, _, err := net.SplitHostPort(hostPort); err == nil {
		host = name
	}
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}
