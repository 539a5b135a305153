# An installation in an AWS account by the module's address and version, without a clone:
#   terraform init && terraform apply && terraform output -raw settings >installation.yaml
# docs/tutorial-ec2.md goes on from there, and says what it costs and how to remove it.

terraform {
  required_version = ">= 1.7"
}

module "tierml" {
  source = "github.com/tierml/tierml//terraform/aws?ref=v0.1.0"

  region  = "us-west-2"
  zones   = ["us-west-2a", "us-west-2b"]
  cluster = "yours"
  owner   = "you"
  binary  = "/usr/bin/tierml" # of the release's deb or rpm, for Linux on x86-64
}

output "settings" {
  description = "What `tierml init --settings` takes."
  value       = module.tierml.settings
}

output "controller" {
  description = "The job server's machine."
  value       = module.tierml.controller
}
