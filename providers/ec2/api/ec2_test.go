package api_test

import (
	"crypto/rand"
	"testing"

	"go.uber.org/goleak"

	ec2 "github.com/tierml/tierml/providers/ec2/api"
	"github.com/tierml/tierml/provisioner"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// unknownMachine is an id that no machine has.
const unknownMachine provisioner.InstanceID = "i-0fffffffffffffff0"

func newCluster() string { return "exam-" + rand.Text() }

func newCloud(t testing.TB, c ec2.Config) *ec2.Cloud {
	t.Helper()
	cloud, err := ec2.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cloud.Close)
	return cloud
}
