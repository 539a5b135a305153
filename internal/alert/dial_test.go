package alert

import (
	"net/http"
	"strings"
	"testing"
)

// A job may name any webhook; the metadata services of clouds are none, however they are written.
func TestNoWebhookIsMetadata(t *testing.T) {
	for address, refused := range map[string]bool{
		"169.254.169.254:80": true, "[::ffff:169.254.169.254]:80": true, "[fe80::1%lo]:80": true, "[fd00:ec2::254]:80": true,
		"127.0.0.1:80": false, "93.184.216.34:443": false, "[2606:2800::1]:443": false, "10.0.0.1:80": false,
	} {
		if err := notMetadata("tcp", address, nil); (err != nil) != refused {
			t.Errorf("%s: %v", address, err)
		}
	}
	client := http.Client{Transport: transport()}
	response, err := client.Get("http://169.254.169.254/latest/meta-data/") // nothing is sent
	if err == nil || !strings.Contains(err.Error(), "metadata service") {
		t.Errorf("%v, %v", response, err)
	}
}
