package market

import "testing"

func TestTakesBids(t *testing.T) {
	for text, want := range map[string]bool{
		"ec2/us-west-1/us-west-1a/c3.xlarge/spot": true, "ec2/us-west-1/us-west-1a/c3.xlarge/on-demand": false,
		"gce/us-central1/us-central1-a/n2-standard-4/spot": false, "gce/us-central1/us-central1-a/n2-standard-4/on-demand": false,
	} {
		p, err := ParsePool(text)
		if err != nil || p.TakesBids() != want {
			t.Errorf("%s: %v, %v; want %v", text, p.TakesBids(), err, want)
		}
	}
}
