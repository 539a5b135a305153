package config

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/tierml/tierml/internal/pattern"
)

// safeName matches names that need no quotes in a script.
var safeName = pattern.Of(`^[A-Za-z0-9:/._~%+=@-]+$`)

// program checks where machines get the program from: over https, or from the provider's store.
func (c *checker) program(path string, p Program, store string) {
	if p.URL == "" && p.SHA256 == "" {
		return // its absence is reported
	}
	u, err := url.Parse(p.URL)
	if err != nil || u.Host == "" || u.Path == "" || !safeName().MatchString(p.URL) ||
		u.Scheme != "https" && u.Scheme != store && !(u.Scheme == "http" && loopback(u.Hostname())) {
		c.fault(path+".url", fmt.Sprintf("%q is no place to fetch a program from", p.URL), "write https://HOST/PATH or "+store+"://BUCKET/KEY")
	}
	if sum, err := hex.DecodeString(p.SHA256); err != nil || len(sum) != 32 || strings.ToLower(p.SHA256) != p.SHA256 {
		c.fault(path+".sha256", "is not a SHA-256 in 64 hexadecimal digits", "write what `sha256sum FILE` prints")
	}
}

func (c *checker) region(path, region, example string) {
	if region != "" && !safeName().MatchString(region) {
		c.fault(path, fmt.Sprintf("%q is not a region", region), "write one such as "+example)
	}
}

// listen checks the address at which machines reach the controller.
func (c *checker) listen(path, address string) {
	if address == "" {
		return
	}
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	if err != nil || ip == nil && !hostName().MatchString(host) {
		c.fault(path, fmt.Sprintf("%q is not an address and a port", address), "write one such as 10.0.0.5:7071")
	} else if ip.IsUnspecified() {
		c.fault(path, address+" is every address: machines must know one", "write the one by which they reach this host")
	}
}

// hostName matches names that are not misspelt addresses: the last part begins with a letter.
var hostName = pattern.Of(`^([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?$`)

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
