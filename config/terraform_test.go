package config

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The settings that the Terraform modules print are valid in a job file: every name is a field, and all required fields, except prices, are
// included.
func TestSettingsOfTerraform(t *testing.T) {
	block := regexp.MustCompile(`(?m)^  (ec2|gce)_settings = \{\n((?:    .*\n)+)  \}$`)
	controller := regexp.MustCompile(`(?m)^  controller_settings = merge\(\n((?:    .*\n)+)  \)$`)
	controllerName := regexp.MustCompile(`(?m)(?:^      |\{ )([a-z_]+) +=`)
	name := regexp.MustCompile(`(?m)^    ([a-z0-9_]+) +=`)
	for module, required := range map[string][]string{
		"aws": {"region", "image", "program", "checkpoints", "subnets", "security_groups", "instance_profile", "store_role", "cluster"},
		"gcp": {"project", "region", "program", "checkpoints", "subnetwork", "service_account", "store_tokens", "cluster"},
	} {
		text, err := os.ReadFile(filepath.Join("..", "terraform", module, "server.tf"))
		if err != nil {
			t.Fatal(err)
		}
		found := block.FindSubmatch(text)
		if found == nil {
			t.Fatalf("terraform/%s/server.tf has no settings", module)
		}
		var names []string
		for _, n := range name.FindAllSubmatch(found[2], -1) {
			names = append(names, string(n[1]))
			if field := string(found[1]) + "." + string(n[1]); !slices.Contains(Fields(), field) {
				t.Errorf("terraform/%s prints %s, which no job file knows", module, field)
			}
		}
		for _, n := range required {
			if !slices.Contains(names, n) {
				t.Errorf("terraform/%s does not print %s", module, n)
			}
		}
		outputs, err := os.ReadFile(filepath.Join("..", "terraform", module, "outputs.tf"))
		if err != nil || !strings.Contains(string(outputs), string(found[1])+" = merge(local."+string(found[1])+"_settings, { controller = local.controller_settings })") {
			t.Errorf("terraform/%s does not print its settings below %s: %v", module, found[1], err)
		}
		of := controller.FindSubmatch(text)
		if of == nil {
			t.Fatalf("terraform/%s/server.tf does not say where the job server is", module)
		}
		for _, n := range controllerName.FindAllSubmatch(of[1], -1) {
			if field := string(found[1]) + ".controller." + string(n[1]); !slices.Contains(Fields(), field) {
				t.Errorf("terraform/%s prints %s, which no job file knows", module, field)
			}
		}
	}
}
