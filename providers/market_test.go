package providers

import "testing"

func TestOtherRegionIsNamed(t *testing.T) {
	if said := OtherRegion("us-east-2", "us-east-1", "us-east-2"); said != "" {
		t.Errorf("of a known region: %q", said)
	}
	if said := OtherRegion("eu-west-1", "us-east-1"); said != ", as those of eu-west-1 are not known" {
		t.Errorf("of another: %q", said)
	}
}
