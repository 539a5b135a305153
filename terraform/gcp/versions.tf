terraform {
  required_version = ">= 1.7"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 6.0, < 7.0"
    }
  }
}

# Whatever this module makes can be found, and its cost be told, by these labels. They are not those of the machines that
# the job server buys (tierml-cluster): the job server may end those, and must not end itself.
provider "google" {
  project = var.project
  region  = var.region

  default_labels = {
    tierml-installation = var.cluster
    tierml-owner        = var.owner
  }
}
