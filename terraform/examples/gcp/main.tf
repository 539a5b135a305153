# An installation in a Google Cloud project by the module's address and version, without a clone:
#   terraform init && terraform apply && terraform output -raw settings >installation.yaml
# docs/tutorial-gce.md goes on from there, and says what it costs and how to remove it.

terraform {
  required_version = ">= 1.7"
}

module "tierml" {
  source = "github.com/tierml/tierml//terraform/gcp?ref=v0.1.0"

  project         = "my-project-123"
  region          = "us-central1"
  controller_zone = "us-central1-a"
  cluster         = "yours"
  owner           = "you"
  binary          = "/usr/bin/tierml" # of the release's deb or rpm, for Linux on x86-64
}

output "settings" {
  description = "What `tierml init --settings` takes."
  value       = module.tierml.settings
}

output "controller" {
  description = "The job server's machine."
  value       = module.tierml.controller
}
