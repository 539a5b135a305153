package alert

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A job may name any webhook except the metadata services of clouds, however they are written.
func TestNoWebhookIsMetadata(t *testing.T) {
	for address, refused := range map[string]bool{
		"169.254.169.254:80": true, "[::ffff:169.254.169.254]:80": true, "[fe80::1%lo]:80": true, "[fd00:ec2::254]:80": true,
		"127.0.0.1:80": false, "93.184.216.34:443": false, "[2606:2800::1]:443": false, "10.0.0.1:80": false,
	} {
		if err := notMetadata("tcp", address, nil); (err != nil) != refused {
			t.Errorf("%s: %v", address, err)
		}
	}
	client := http.Client{Transport: transport(notMetadata)}
	response, err := client.Get("http://169.254.169.254/latest/meta-data/") // nothing is sent
	if err == nil || !strings.Contains(err.Error(), "metadata service") {
		t.Errorf("%v, %v", response, err)
	}
}

// A webhook named by another user is dialled only at public addresses: the resolved address is checked when dialling, and redirections are
// not followed.
func TestWebhooksOfOthersArePublic(t *testing.T) {
	for address, refused := range map[string]bool{
		"127.0.0.1:80": true, "[::1]:80": true, "10.0.0.1:80": true, "192.168.1.1:80": true, "[fd00::1]:80": true, "[::ffff:10.0.0.1]:80": true,
		"169.254.169.254:80": true, "0.0.0.0:80": true, "100.64.0.1:80": true, "224.0.0.1:80": true, "93.184.216.34:443": false, "[2606:2800::1]:443": false,
	} {
		if err := onlyPublic("tcp", address, nil); (err != nil) != refused {
			t.Errorf("%s: %v", address, err)
		}
	}
	asked := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer server.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	hook, err := NewHook("http://localhost:"+port+"/", "", "")
	if err != nil {
		t.Fatal(err)
	}
	notifier := NewPublicNotifier(hook, slog.New(slog.DiscardHandler))
	defer notifier.Close()
	response, err := notifier.client.Get("http://localhost:" + port + "/")
	if err == nil || asked || !strings.Contains(err.Error(), "of this host or its network") {
		t.Errorf("a name that leads here: %v, %v", response, err)
	}
	if !errors.Is(notifier.client.CheckRedirect(nil, nil), http.ErrUseLastResponse) {
		t.Error("redirections are followed")
	}
}
